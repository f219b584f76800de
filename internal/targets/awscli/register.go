// Package awscli writes command lines of the AWS CLI that register and deregister targets, for
// people who have credentials where this program has none.
package awscli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

// most is how many targets one command line names: more would make one request too big.
const most = 200

// Register are the command lines that put targets into a group: one for 200 targets,
// each quoted for a POSIX shell. Region may be empty for a target group, whose ARN
// has it, and where the user's default is meant. Of the group only ID and Balancer count.
func Register(region string, g targets.Group, rs []targets.Registration) []string {
	var lines []string
	for chunk := range slices.Chunk(rs, most) {
		lines = append(lines, register(region, g, chunk))
	}
	return lines
}

func register(region string, g targets.Group, rs []targets.Registration) string {
	words := []string{"aws", "elbv2", "register-targets", "--target-group-arn", g.ID}
	named := "--targets"
	if g.Balancer == targets.Classic {
		words = []string{"aws", "elb", "register-instances-with-load-balancer", "--load-balancer-name", g.ID}
		named = "--instances"
	}
	if of := regionOf(g.ID); of != "" {
		region = of
	}
	if region != "" {
		words = append(words, "--region", region)
	}
	words = append(words, named)
	for _, r := range rs {
		if word := argument(g, r); !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	for i, word := range words {
		words[i] = quoted(word)
	}
	return strings.Join(words, " ")
}

// argument is a target as the AWS CLI's shorthand syntax has it.
func argument(g targets.Group, r targets.Registration) string {
	if g.Balancer == targets.Classic {
		return r.ID
	}
	word := fmt.Sprintf("Id=%s,Port=%d", r.ID, r.Port)
	if r.Zone != "" {
		word += ",AvailabilityZone=" + r.Zone
	}
	return word
}

// regionOf is the fourth part of an ARN.
func regionOf(id string) string {
	if parts := strings.Split(id, ":"); len(parts) > 3 && parts[0] == "arn" {
		return parts[3]
	}
	return ""
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

func quoted(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
