package rollout

import "math"

// Where a Deployment of several ReplicaSets is asked for another number of pods, or is
// paused, the Deployment controller scales them in proportion (pkg/controller/deployment of
// Kubernetes, sync.go): of each it takes its part of what all were sized for, rounded, and
// what rounding left it takes from the largest, of two equal ones from the elder.

// surgeOf is with how much surge proportional scaling to so many pods takes none from those
// that run: room for as many as all ReplicaSets are asked for, and more where the Deployment
// was to have more when they were scaled.
func (d *Deployment) surgeOf(replicas int32) int32 { return max(0, d.sizedFor()-replicas) }

// sizedFor is how many pods all ReplicaSets may be asked for.
func (d *Deployment) sizedFor() int32 {
	return max(d.Replicas+d.Surge, d.UpdatedReplicas+d.OlderReplicas)
}

// surgeBeside is the least surge with which proportional scaling to the pods that run takes
// only from the present ReplicaSet, whose pods are rejected, and none that run from the older
// one, however many of the present one it was to have. It is as much as surgeOf in the worst
// case: then what is rejected is made anew until the node's turn.
func (d *Deployment) surgeBeside(older, present int32) int32 {
	before, all := d.sizedFor(), older+present
	for after := all; after < before; after++ {
		if keepsOlder(older, present, before, after) {
			return after - all
		}
	}
	return d.surgeOf(all)
}

// keepsOlder is whether the older ReplicaSet keeps its pods where both were sized for so many
// pods before, and are for so many after, whatever the size of the present one.
func keepsOlder(older, present, before, after int32) bool {
	for rejecting := present + 1; rejecting <= before-older; rejecting++ {
		if scaledBeside(older, rejecting, before, after) < older {
			return false
		}
	}
	return true
}

// scaledBeside is how many pods a ReplicaSet is asked for after proportional scaling beside
// another. Of two equal ones it is taken for the elder.
func scaledBeside(size, other, before, after int32) int32 {
	add := after - size - other
	if add == 0 {
		return size
	}
	part := func(size, left int32) int32 {
		if left == 0 {
			return 0
		}
		part := int32(math.Round(float64(size)*float64(after)/float64(before))) - size
		if add > 0 {
			return min(part, left)
		}
		return max(part, left)
	}
	if size < other {
		return size + part(size, add-part(other, add))
	}
	first := part(size, add)
	return size + first + add - first - part(other, add-first)
}
