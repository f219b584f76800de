package connections

import (
	"errors"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

const (
	// staleAfter is how old a dump may be that is told of.
	staleAfter = longest + 5*time.Second
	// forgetAfter is how many dumps may pass without a connection before it is
	// forgotten. A socket of which the connection is over may be kept open by its
	// process, and half-open ones that time out are never told of.
	forgetAfter = 60
)

var errStale = errors.New("the connections were last counted too long ago")

// connection is a TCP connection as the kernel knows it.
type connection struct {
	// cookie is the kernel's number of the socket, never given twice. It stays the
	// same from the first packet of a connection to its end, but for one that a dump
	// meets at the moment in which it stops being half-open: that counts as two.
	cookie uint64
	// port is the local one.
	port uint16
}

// ledger keeps account of the connections to some ports. Its invariant: of every
// connection that came within the time for which a port is called quiet, a dump or
// a notice would have told, and none did.
type ledger struct {
	ports    []uint16
	accounts map[uint16]*account
	// known are the cookies of connections that a dump showed and that were not
	// destroyed since, with the number of the last such dump.
	known map[uint64]uint32
	dumps uint32
	// at is when the last dump began: what is told was true then.
	at time.Time
	// unknown is why nothing is known at present.
	unknown error
	// seen is how many new connections were seen in all.
	seen int
}

// account is of one port.
type account struct {
	open int
	// busy is when a new connection was last seen, or could last have come unseen, came when
	// one that was seen to come did, at the earliest.
	busy, came time.Time
}

func newLedger(ports []uint16) *ledger {
	l := &ledger{ports: ports, accounts: map[uint16]*account{}, known: map[uint64]uint32{}, unknown: errBegun}
	for _, port := range ports {
		l.accounts[port] = &account{}
	}
	return l
}

// dumped enters a complete dump that began at the given time. After something was
// lost, all that is there may have come unseen.
func (l *ledger) dumped(connections []connection, begun time.Time) {
	l.dumps++
	last := l.at
	if l.unknown != nil {
		// What is there may have been for long.
		last = time.Time{}
	}
	l.at = begun
	for _, a := range l.accounts {
		a.open = 0
		if l.unknown != nil {
			a.busy = begun
		}
	}
	l.unknown = nil
	for _, c := range connections {
		a := l.accounts[c.port]
		if a == nil {
			continue
		}
		a.open++
		if _, known := l.known[c.cookie]; !known {
			l.came(a, begun, last)
		}
		l.known[c.cookie] = l.dumps
	}
	if l.dumps%forgetAfter == 0 {
		l.forget()
	}
}

// destroyed enters the notice of a destroyed socket. One that no dump had shown
// came and went since the last.
func (l *ledger) destroyed(c connection, now time.Time) {
	if _, known := l.known[c.cookie]; known {
		delete(l.known, c.cookie)
		return
	}
	if a := l.accounts[c.port]; a != nil {
		since := l.at
		if l.unknown != nil {
			since = time.Time{}
		}
		l.came(a, now, since)
	}
}

// lose enters that connections may have come unseen, until the next dump.
func (l *ledger) lose(cause error) { l.unknown = cause }

// came enters a new connection, which came by the given time, and after another, zero where that is
// not known.
func (l *ledger) came(a *account, by, after time.Time) {
	l.seen++
	a.busy = by
	if !after.IsZero() {
		a.came = after
	}
}

func (l *ledger) forget() {
	for cookie, last := range l.known {
		if l.dumps-last >= forgetAfter {
			delete(l.known, cookie)
		}
	}
}

// report is what is known of each port, in the order in which they were given.
func (l *ledger) report(now time.Time) []v1alpha1.PortConnections {
	unknown := l.unknown
	if unknown == nil && now.Sub(l.at) > staleAfter {
		unknown = errStale
	}
	var out []v1alpha1.PortConnections
	for _, port := range l.ports {
		p := v1alpha1.PortConnections{Port: int32(port)}
		if unknown != nil {
			p.Unknown = unknown.Error()
		} else {
			a := l.accounts[port]
			p.Open, p.QuietSeconds = int32(a.open), max(0, l.at.Sub(a.busy).Seconds())
			if !a.came.IsZero() {
				p.CameSeconds = new(now.Sub(a.came).Seconds())
			}
		}
		out = append(out, p)
	}
	return out
}
