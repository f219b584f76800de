package targets

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// set sets a condition; its time stays where its status does.
func (p *pass) set(list *[]metav1.Condition, c metav1.Condition) {
	c.LastTransitionTime = asStored(p.Now)
	meta.SetStatusCondition(list, c)
}

// asStored is a time as the API server stores it.
func asStored(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// shortened keeps a message within what a condition may have, and cuts no character.
func shortened(s string) string {
	const limit = 1000
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + " ..."
}
