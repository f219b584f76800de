package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maxLabelValue = 63
	hashDigits    = 10
)

// LabelValue is the value of LabelNode or LabelName for a node or an
// IngressDaemonSet of the given name: the name itself where it fits into 63
// characters, otherwise its first 52 characters, a dash and 10 hexadecimal
// digits of its SHA-256.
func LabelValue(name string) string {
	if len(name) <= maxLabelValue {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:maxLabelValue-1-hashDigits] + "-" + hex.EncodeToString(sum[:])[:hashDigits]
}

// ReadinessGate is the condition type with which pods wait until their targets of a
// TargetGroupAttachment take traffic: ReadinessGatePrefix and the name, which is
// shortened as LabelValue does, since it may have no more than 63 characters.
func ReadinessGate(attachment string) string { return ReadinessGatePrefix + LabelValue(attachment) }

// DeploymentNames are those that the Deployment of a node may have: <name>-<node>, where
// that is not too long, and for where it is taken the same with a hash of both appended.
func DeploymentNames(set, node string) []string {
	// A ReplicaSet's name is the Deployment's and up to 11 characters more.
	const longest = 253 - 11
	name, sum := set+"-"+node, sha256.Sum256([]byte(set+"/"+node))
	suffix := "-" + hex.EncodeToString(sum[:])[:hashDigits]
	// A dash may not follow a dot.
	hashed := strings.TrimRight(name[:min(len(name), longest-len(suffix))], ".") + suffix
	if len(name) > longest {
		return []string{hashed}
	}
	return []string{name, hashed}
}
