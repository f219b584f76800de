// Package recorder has events told whose notes differ.
package recorder

import (
	"fmt"
	"hash/crc32"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// ByNote tells events apart by their notes, too. A recorder of client-go makes one event for all that have the object,
// the type, the reason and the action in common and are made within minutes, with the note of the first: of a rollout
// it told the first node, and counted the others. What is repeated word for word is still counted.
func ByNote(r events.EventRecorder) events.EventRecorder { return byNote{r} }

type byNote struct{ events.EventRecorder }

// Eventf is of events.EventRecorder. The action gets a part that differs with the note.
func (b byNote) Eventf(regarding, related runtime.Object, kind, reason, action, format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	b.EventRecorder.Eventf(regarding, related, kind, reason, fmt.Sprintf("%s-%08x", action, crc32.ChecksumIEEE([]byte(note))), "%s", note)
}
