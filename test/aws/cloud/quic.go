package cloud

import "regexp"

// isQUIC reports whether the targets of a group have server ids.
func (g TargetGroup) isQUIC() bool { return g.Protocol == "QUIC" || g.Protocol == "TCP_QUIC" }

var serverIDFormat = regexp.MustCompile(`^0x[0-9a-f]{16}$`)

// checkServerID refuses a target without a server id in a group of QUIC, and one with an id in
// any other; an id that another target has, and another id of a target that is registered.
func (g *group) checkServerID(t Target, fresh []resolved) error {
	id := t.QuicServerID
	switch {
	case !g.isQUIC() && id != "":
		return refuse("ValidationError", "QuicServerId cannot be specified for a target group with protocol %s", g.Protocol)
	case !g.isQUIC():
		return nil
	case id == "":
		return refuse("ValidationError", "QuicServerId is required for target '%s' because the protocol of the target group is %s", t.ID, g.Protocol)
	case !serverIDFormat.MatchString(id):
		return refuse("ValidationError", "QuicServerId '%s' is not valid: it must be 0x followed by 16 lowercase hexadecimal characters", id)
	}
	others := make([]Target, 0, len(g.live)+len(fresh))
	for _, r := range g.live {
		others = append(others, r.target)
	}
	for _, r := range fresh {
		others = append(others, r.Target)
	}
	for _, other := range others {
		same := other.ID == t.ID && other.Port == t.Port
		switch {
		case same && other.QuicServerID != id:
			return refuse("ValidationError", "The QuicServerId of target '%s' cannot be modified: it is registered", t.ID)
		case !same && other.QuicServerID == id:
			return refuse("ValidationError", "QuicServerId '%s' is used by target '%s'", id, other.ID)
		}
	}
	return nil
}
