package cloud

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Attributes that the model acts on.
const (
	attributeDelay          = "deregistration_delay.timeout_seconds"
	attributeCutOnLeaving   = "deregistration_delay.connection_termination.enabled"
	attributeCutOnUnhealthy = "target_health_state.unhealthy.connection_termination.enabled"
	attributeUnhealthyDrain = "target_health_state.unhealthy.draining_interval_seconds"
	attributeCrossZone      = "load_balancing.cross_zone.enabled"
	attributeRoutingMinimum = "target_group_health.unhealthy_state_routing.minimum_healthy_targets.count"
	attributeDNSMinimum     = "target_group_health.dns_failover.minimum_healthy_targets.count"
	attributeZonalShift     = "zonal_shift.config.enabled"
	likeBalancer            = "use_load_balancer_configuration"
)

// groupAttributes are all attributes of a target group, with their defaults.
func groupAttributes(kind Kind, targetType string) map[string]string {
	all := map[string]string{
		attributeDelay:          "300",
		attributeCrossZone:      likeBalancer,
		attributeRoutingMinimum: "1",
		attributeDNSMinimum:     "1",
		"target_group_health.unhealthy_state_routing.minimum_healthy_targets.percentage": "off",
		"target_group_health.dns_failover.minimum_healthy_targets.percentage":            "off",
		"stickiness.enabled": "false",
	}
	if kind == Application {
		all["stickiness.type"] = "lb_cookie"
		all["load_balancing.algorithm.type"] = "round_robin"
		all["slow_start.duration_seconds"] = "0"
		return all
	}
	all[attributeCutOnLeaving] = "false"
	all[attributeCutOnUnhealthy] = "true"
	all[attributeUnhealthyDrain] = "0"
	all["stickiness.type"] = "source_ip"
	all["proxy_protocol_v2.enabled"] = "false"
	all["preserve_client_ip.enabled"] = strconv.FormatBool(targetType == "instance")
	return all
}

// unmodelled are attributes that can be read but not set: the data plane does not act on them.
var unmodelled = []string{
	"target_group_health.unhealthy_state_routing.minimum_healthy_targets.percentage",
	"target_group_health.dns_failover.minimum_healthy_targets.percentage",
	"stickiness.enabled", "stickiness.type", "slow_start.duration_seconds", "load_balancing.algorithm.type",
	"proxy_protocol_v2.enabled", "dns_record.client_routing_policy",
}

func balancerAttributes(kind Kind) map[string]string {
	all := map[string]string{
		"deletion_protection.enabled": "false",
		"access_logs.s3.enabled":      "false",
		attributeZonalShift:           "false",
		attributeCrossZone:            strconv.FormatBool(kind == Application),
	}
	if kind == Application {
		all["idle_timeout.timeout_seconds"] = "60"
	} else {
		all["dns_record.client_routing_policy"] = "any_availability_zone"
	}
	return all
}

// withAttributes lays what is set over the defaults.
func withAttributes(defaults, set map[string]string) (map[string]string, error) {
	for _, key := range slices.Sorted(maps.Keys(set)) {
		standard, known := defaults[key]
		switch value := set[key]; {
		case !known:
			return nil, fmt.Errorf("attribute %s is not known here", key)
		case value == standard:
		case slices.Contains(unmodelled, key) && value != standard:
			return nil, fmt.Errorf("attribute %s is not modelled: it must be %s", key, standard)
		case !validAttribute(standard, value):
			return nil, fmt.Errorf("attribute %s cannot be %q", key, value)
		}
		defaults[key] = set[key]
	}
	return defaults, nil
}

func validAttribute(standard, value string) bool {
	boolean := value == "true" || value == "false"
	switch standard {
	case "true", "false":
		return boolean
	case likeBalancer:
		return boolean || value == likeBalancer
	}
	n, err := strconv.Atoi(value)
	return err == nil && n >= 0
}

var nameFormat = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?$`)

func (g TargetGroup) withDefaults() (TargetGroup, Kind, error) {
	kind := map[string]Kind{"TCP": Network, "QUIC": Network, "TCP_QUIC": Network, "HTTP": Application}[g.Protocol]
	g.AddressType = cmp.Or(g.AddressType, "ipv4")
	switch {
	case !nameFormat.MatchString(g.Name):
		return g, kind, fmt.Errorf("%q cannot be a name", g.Name)
	case kind == "":
		return g, kind, fmt.Errorf("protocol %q: must be TCP, QUIC, TCP_QUIC or HTTP", g.Protocol)
	case g.isQUIC() && g.AddressType != "ipv4":
		return g, kind, fmt.Errorf("protocol %s: the address type must be ipv4", g.Protocol)
	case g.Port < 1 || g.Port > 65535:
		return g, kind, fmt.Errorf("port %d", g.Port)
	case g.TargetType != "instance" && g.TargetType != "ip":
		return g, kind, fmt.Errorf("target type %q: must be instance or ip", g.TargetType)
	case g.AddressType != "ipv4" && g.AddressType != "ipv6":
		return g, kind, fmt.Errorf("address type %q: must be ipv4 or ipv6", g.AddressType)
	}
	var err error
	if g.HealthCheck, err = g.HealthCheck.withDefaults(kind); err != nil {
		return g, kind, fmt.Errorf("health check: %w", err)
	}
	g.Attributes, err = withAttributes(groupAttributes(kind, g.TargetType), g.Attributes)
	return g, kind, err
}

func (h HealthCheck) withDefaults(kind Kind) (HealthCheck, error) {
	h.Port = cmp.Or(h.Port, "traffic-port")
	h.IntervalSeconds = cmp.Or(h.IntervalSeconds, 30)
	h.UnhealthyThreshold = cmp.Or(h.UnhealthyThreshold, 2)
	h.HealthyThreshold = cmp.Or(h.HealthyThreshold, 5)
	h.Protocol = cmp.Or(h.Protocol, map[Kind]string{Application: "HTTP"}[kind], "TCP")
	if h.Protocol == "HTTP" {
		h.Path = cmp.Or(h.Path, "/")
		h.Matcher = cmp.Or(h.Matcher, map[Kind]string{Network: "200-399"}[kind], "200")
		h.TimeoutSeconds = cmp.Or(h.TimeoutSeconds, map[Kind]int{Network: 6}[kind], 5)
	} else {
		h.TimeoutSeconds = cmp.Or(h.TimeoutSeconds, 10)
	}
	return h, h.validate(kind)
}

func (h HealthCheck) validate(kind Kind) error {
	if _, err := strconv.ParseUint(h.Port, 10, 16); err != nil && h.Port != "traffic-port" {
		return fmt.Errorf("port %q", h.Port)
	}
	if h.Protocol != "HTTP" && (h.Protocol != "TCP" || kind == Application) {
		return fmt.Errorf("protocol %q", h.Protocol)
	}
	for name, limits := range map[string][3]int{
		"interval":            {h.IntervalSeconds, 5, 300},
		"timeout":             {h.TimeoutSeconds, 2, 120},
		"healthy threshold":   {h.HealthyThreshold, 2, 10},
		"unhealthy threshold": {h.UnhealthyThreshold, 2, 10},
	} {
		if limits[0] < limits[1] || limits[0] > limits[2] {
			return fmt.Errorf("%s %d: must be %d to %d", name, limits[0], limits[1], limits[2])
		}
	}
	if h.Matcher != "" && !matcherFormat.MatchString(h.Matcher) {
		return fmt.Errorf("matcher %q", h.Matcher)
	}
	return nil
}

var matcherFormat = regexp.MustCompile(`^\d{3}(-\d{3})?(,\d{3}(-\d{3})?)*$`)

// Matches reports whether a code is among those of a matcher, such as 200-299,304.
func Matches(matcher string, code int) bool {
	for part := range strings.SplitSeq(matcher, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		low, _ := strconv.Atoi(from)
		high, _ := strconv.Atoi(to)
		if low <= code && code <= high {
			return true
		}
	}
	return false
}

// group is a classic load balancer's instances and checks as those of a target group.
func (b ClassicLoadBalancer) group() (TargetGroup, error) {
	protocol, rest, _ := strings.Cut(b.Check.Target, ":")
	port, path, _ := strings.Cut(rest, "/")
	if port == "traffic-port" || port == "" {
		return TargetGroup{}, fmt.Errorf("health check target %q: must be PROTOCOL:PORT", b.Check.Target)
	}
	check := HealthCheck{
		Protocol: protocol, Port: port, Path: "/" + path, Matcher: "200",
		IntervalSeconds: cmp.Or(b.Check.IntervalSeconds, 30), TimeoutSeconds: cmp.Or(b.Check.TimeoutSeconds, 5),
		HealthyThreshold: cmp.Or(b.Check.HealthyThreshold, 10), UnhealthyThreshold: cmp.Or(b.Check.UnhealthyThreshold, 2),
	}
	delay := 0
	if b.Draining {
		delay = cmp.Or(b.Timeout, 300)
	}
	return TargetGroup{
		Name: b.Name, TargetType: "instance", AddressType: "ipv4", HealthCheck: check, AssumeHealthy: b.AssumeHealthy, Tags: b.Tags,
		Attributes: map[string]string{
			attributeDelay: strconv.Itoa(delay), attributeCutOnLeaving: "true",
			attributeCutOnUnhealthy: strconv.FormatBool(!b.Draining), attributeUnhealthyDrain: "0",
			attributeCrossZone: strconv.FormatBool(b.CrossZone), attributeRoutingMinimum: "0", attributeDNSMinimum: "1",
		},
	}, check.validate(Classic)
}
