package detach

// stopPods stops the pods of a node that goes away, those of the highest priority
// first; the next follow when these have ended.
func (p *planner) stopPods(n *Node, d *NodeDecision) {
	highest, any := 0, false
	for _, pod := range n.Pods {
		switch {
		case pod.Ended:
		case pod.Daemon && pod.Tolerates:
			d.Returning = append(d.Returning, pod)
		case !any || pod.Priority > highest:
			highest, any = pod.Priority, true
		}
	}
	for _, pod := range n.Pods {
		switch {
		case pod.Ended, pod.Daemon && pod.Tolerates, pod.Priority != highest, pod.Terminating:
		case p.Now.Before(pod.RetryAt):
			p.wake(pod.RetryAt)
		default:
			d.Stop = append(d.Stop, pod)
		}
	}
}
