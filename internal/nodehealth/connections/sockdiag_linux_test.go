package connections

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMalformed takes nothing from an answer that is not understood.
func TestMalformed(t *testing.T) {
	whole := make([]byte, unix.SizeofNlMsghdr+sizeofDiagMessage)
	order.PutUint32(whole, uint32(len(whole)))
	k := &kernel{}
	if done, err := k.collect(whole); done || err != nil {
		t.Errorf("a whole message: %v, %v", done, err)
	}
	with := func(change func(b []byte)) []byte {
		b := append([]byte{}, whole...)
		change(b)
		return b
	}
	for name, test := range map[string]struct {
		part []byte
		want error
	}{
		"a part of a header":        {whole[:10], errMalformed},
		"longer than what was read": {whole[:80], errMalformed},
		"shorter than its header":   {with(func(b []byte) { order.PutUint32(b, 8) }), errMalformed},
		"too short for a socket":    {with(func(b []byte) { order.PutUint32(b, 40) })[:40], errMalformed},
		"of another question":       {with(func(b []byte) { order.PutUint32(b[8:], 7) }), errForeign},
		"interrupted":               {with(func(b []byte) { order.PutUint16(b[6:], unix.NLM_F_DUMP_INTR) }), errChanged},
		"an end that failed": {with(func(b []byte) {
			order.PutUint16(b[4:], unix.NLMSG_DONE)
			failure := -int32(unix.ENOMEM)
			order.PutUint32(b[unix.SizeofNlMsghdr:], uint32(failure))
		}), unix.ENOMEM},
		"an error without its number": {with(func(b []byte) {
			order.PutUint16(b[4:], unix.NLMSG_ERROR)
			order.PutUint32(b, unix.SizeofNlMsghdr)
		})[:unix.SizeofNlMsghdr], errMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := k.collect(test.part); !errors.Is(err, test.want) {
				t.Errorf("error is %v, want %v", err, test.want)
			}
		})
	}
	if len(k.found) != 0 {
		t.Errorf("found %v", k.found)
	}
}
