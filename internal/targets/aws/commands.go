package aws

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

// Commands are the command lines of the AWS CLI that do what a Client's methods do,
// for people who have its credentials where this program has none: one line for 200
// targets, each quoted for a POSIX shell. Read without targets lists all. Region may
// be empty for a target group, whose ARN has it.
func Commands(region string, g targets.Group, class Class, rs []targets.Registration) []string {
	if len(rs) == 0 && class == Read {
		return []string{command(region, g, class, nil)}
	}
	var lines []string
	for chunk := range slices.Chunk(rs, most) {
		lines = append(lines, command(region, g, class, chunk))
	}
	return lines
}

func command(region string, g targets.Group, class Class, rs []targets.Registration) string {
	words := []string{"aws", "elbv2", subcommands[class], "--target-group-arn", g.ID}
	named := "--targets"
	if g.Balancer == targets.Classic {
		words = []string{"aws", "elb", classicSubcommands[class], "--load-balancer-name", g.ID}
		named = "--instances"
	}
	if region == "" {
		region = regionOf(g.ID)
	}
	if region != "" {
		words = append(words, "--region", region)
	}
	if len(rs) > 0 {
		words = append(words, named)
	}
	for _, r := range rs {
		if word := argument(g, class, r); !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	for i, word := range words {
		words[i] = quoted(word)
	}
	return strings.Join(words, " ")
}

var (
	subcommands        = map[Class]string{Register: "register-targets", Deregister: "deregister-targets", Read: "describe-target-health"}
	classicSubcommands = map[Class]string{
		Register: "register-instances-with-load-balancer", Deregister: "deregister-instances-from-load-balancer", Read: "describe-instance-health",
	}
)

// argument is a target as the AWS CLI's shorthand syntax has it.
func argument(g targets.Group, class Class, r targets.Registration) string {
	if g.Balancer == targets.Classic {
		return r.ID
	}
	word := fmt.Sprintf("Id=%s,Port=%d", r.ID, r.Port)
	if class == Register && r.Zone != "" {
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
