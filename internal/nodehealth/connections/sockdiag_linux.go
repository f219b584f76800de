package connections

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"

	"golang.org/x/sys/unix"
)

// Of linux/inet_diag.h: struct inet_diag_req_v2 and struct inet_diag_msg, which
// share struct inet_diag_sockid.
const (
	sizeofDiagRequest = 56
	sizeofDiagMessage = 72

	timerAt     = 2
	localPortAt = 4
	localAt     = 8
	peerAt      = 24
	cookieAt    = 44
	addressSize = 16
	conditionIn = 1 // INET_DIAG_REQ_BYTECODE
	opJump      = 1 // INET_DIAG_BC_JMP
	opAtLeast   = 2 // INET_DIAG_BC_S_GE
	opAtMost    = 3 // INET_DIAG_BC_S_LE
	opSize      = 4 // struct inet_diag_bc_op

	// timeWait is the timer of a socket that is no more than a memory of one, in
	// TIME_WAIT or in FIN_WAIT2 (inet_twsk_diag_fill).
	timeWait = 3
)

// openStates are those in which a connection can still carry data, bytes under way
// at its end included. Listeners, TIME_WAIT and CLOSE are not among them.
const openStates = 1<<unix.BPF_TCP_SYN_RECV | 1<<unix.BPF_TCP_ESTABLISHED | 1<<unix.BPF_TCP_CLOSE_WAIT |
	1<<unix.BPF_TCP_FIN_WAIT1 | 1<<unix.BPF_TCP_FIN_WAIT2 | 1<<unix.BPF_TCP_CLOSING | 1<<unix.BPF_TCP_LAST_ACK

var order = binary.NativeEndian

// message is one netlink message (RFC 3549 section 2.3.2).
type message struct {
	kind, flags uint16
	sequence    uint32
	body        []byte
}

// messages are those of one datagram.
func messages(datagram []byte) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		for len(datagram) > 0 {
			m, size, err := nextMessage(datagram)
			if !yield(m, err) || err != nil {
				return
			}
			datagram = datagram[min(align(size), len(datagram)):]
		}
	}
}

func nextMessage(b []byte) (m message, size int, err error) {
	if len(b) < unix.SizeofNlMsghdr {
		return m, 0, errMalformed
	}
	size = int(order.Uint32(b))
	if size < unix.SizeofNlMsghdr || size > len(b) {
		return m, 0, errMalformed
	}
	m = message{kind: order.Uint16(b[4:]), flags: order.Uint16(b[6:]), sequence: order.Uint32(b[8:]), body: b[unix.SizeofNlMsghdr:size]}
	return m, size, nil
}

func align(size int) int { return (size + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1) }

// failure is the error that a message of the kind done or error carries.
func (m message) failure() error {
	if len(m.body) < 4 {
		return errMalformed
	}
	if code := int32(order.Uint32(m.body)); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// decode reads a struct inet_diag_msg. Not every socket counts: not what is left of
// a connection after its end, not a listener, which has no peer, and not a
// connection of the node with itself, such as a kubelet's probe, whose two
// addresses are the same.
func decode(body []byte) (c connection, counts bool, err error) {
	if len(body) < sizeofDiagMessage {
		return c, false, errMalformed
	}
	local, peer := body[localAt:][:addressSize], body[peerAt:][:addressSize]
	c.port = binary.BigEndian.Uint16(body[localPortAt:])
	c.cookie = uint64(order.Uint32(body[cookieAt:])) | uint64(order.Uint32(body[cookieAt+4:]))<<32
	none := bytes.Equal(peer, make([]byte, addressSize))
	return c, body[timerAt] != timeWait && !none && !bytes.Equal(local, peer), nil
}

// dumpRequest asks for the open connections to the ports.
func dumpRequest(family uint8, sequence uint32, ports []uint16) []byte {
	condition := portCondition(ports)
	size := unix.SizeofNlMsghdr + sizeofDiagRequest + unix.SizeofRtAttr + len(condition)
	b := make([]byte, 0, size)
	b = order.AppendUint32(b, uint32(size))
	b = order.AppendUint16(b, unix.SOCK_DIAG_BY_FAMILY)
	b = order.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	b = order.AppendUint32(b, sequence)
	b = order.AppendUint32(b, 0)
	b = append(b, family, unix.IPPROTO_TCP, 0, 0)
	b = order.AppendUint32(b, openStates)
	b = append(b, make([]byte, unix.SizeofNlMsghdr+sizeofDiagRequest-len(b))...)
	b = order.AppendUint16(b, uint16(unix.SizeofRtAttr+len(condition)))
	b = order.AppendUint16(b, conditionIn)
	return append(b, condition...)
}

// portCondition is a program that the kernel runs for each socket in a dump. Each
// operation goes on by yes or by no bytes; the end accepts, and what lies past it
// refuses. For each port: at least it, at most it, and then to the end.
func portCondition(ports []uint16) []byte {
	const compare = 2 * opSize // the operation and what it compares with
	const each = 2*compare + opSize
	total := len(ports)*each - opSize
	b := make([]byte, 0, total)
	add := func(code, yes uint8, no int) { b = order.AppendUint16(append(b, code, yes), uint16(no)) }
	for i, port := range ports {
		next, left := each, total-len(b)
		last := i == len(ports)-1
		if last {
			next = left + opSize
		}
		add(opAtLeast, compare, next)
		add(0, 0, int(port))
		add(opAtMost, compare, next-compare)
		add(0, 0, int(port))
		if !last {
			add(opJump, opSize, left-2*compare)
		}
	}
	return b
}

// portFilter lets pass the notices of the ports (BPF, socket(7) SO_ATTACH_FILTER).
func portFilter(ports []uint16) []unix.SockFilter {
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: unix.SizeofNlMsghdr + localPortAt}}
	for _, port := range ports {
		program = append(program,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(port)},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: math.MaxUint32})
	}
	return append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0})
}
