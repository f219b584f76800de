package rollout

import (
	"math"
	"slices"
)

// Where a Deployment of several ReplicaSets is asked for another number of pods, or is
// paused, the Deployment controller scales them in proportion (pkg/controller/deployment of
// Kubernetes, sync.go): of each it takes its part of what all were sized for, rounded, and
// what rounding left it takes from the largest, of two equal ones from the elder.

// mostReckoned is of how many pods a node's ReplicaSets are reckoned with one by one: twice as
// many as it may be to have, and more. Somebody may have scaled a Deployment to millions.
const mostReckoned = 256

// surgeOf is with how much surge proportional scaling to so many pods takes none from those
// that run: room for as many as all ReplicaSets are asked for, and more where the Deployment
// was to have more when they were scaled.
func (d *Deployment) surgeOf(replicas int32) int32 { return max(0, d.sizedFor()-replicas) }

// sizedFor is how many pods all ReplicaSets may be asked for.
func (d *Deployment) sizedFor() int32 {
	return max(d.Replicas+d.Surge, d.UpdatedReplicas+d.OlderReplicas)
}

// surgeBeside is the least surge with which proportional scaling to the pods that run takes
// only from the present ReplicaSet, whose pods are rejected, and none that run from the others,
// however many of the present one it was to have. It is as much as surgeOf in the worst case:
// then what is rejected is made anew until the node's turn.
func (d *Deployment) surgeBeside(present int32, others []int32) int32 {
	before, all := d.sizedFor(), present+sum(others)
	if before > mostReckoned {
		return d.surgeOf(all)
	}
	for after := all; after < before; after++ {
		if keepsOthers(present, others, before, after) {
			return after - all
		}
	}
	return d.surgeOf(all)
}

// keepsOthers reports whether the other ReplicaSets keep their pods where all were sized for so many
// pods before, and are for so many after, whatever the size of the present one.
func keepsOthers(present int32, others []int32, before, after int32) bool {
	for rejecting := present + 1; rejecting <= before-sum(others); rejecting++ {
		sizes, at := largestFirst(rejecting, others)
		for i, size := range inProportion(sizes, before, after) {
			if i != at && size < sizes[i] {
				return false
			}
		}
	}
	return true
}

// largestFirst is the order in which ReplicaSets are scaled, with the place of the present one: of
// equal ones it is taken for the youngest.
func largestFirst(present int32, others []int32) (sizes []int32, at int) {
	sizes = slices.Sorted(slices.Values(others))
	slices.Reverse(sizes)
	at = len(sizes)
	for at > 0 && sizes[at-1] < present {
		at--
	}
	return slices.Insert(sizes, at, present), at
}

// inProportion are the sizes of ReplicaSets after proportional scaling.
func inProportion(sizes []int32, before, after int32) []int32 {
	scaled := slices.Clone(sizes)
	left := after - sum(sizes)
	for i, size := range sizes {
		if left == 0 {
			break
		}
		part := int32(math.Round(float64(size)*float64(after)/float64(before))) - size
		if left > 0 {
			part = min(part, left)
		} else {
			part = max(part, left)
		}
		scaled[i] += part
		left -= part
	}
	scaled[0] += left
	return scaled
}

func sum(sizes []int32) (all int32) {
	for _, size := range sizes {
		all += size
	}
	return all
}
