package aws

import (
	"testing"
	"time"
)

func TestAttributesAreRemembered(t *testing.T) {
	s := newServer(t)
	prepare := func(attributes ...answer) {
		s.on(describeTargetGroups, result(members("TargetGroups", targetGroup("a", "ip", "TCP", members("LoadBalancerArns", nlbARN)), targetGroup("b", "ip", "HTTP"))))
		s.on(describeTags, tagsOf(true))
		s.on(describeTargetGroupAttributes, attributes...)
		s.on(describeLoadBalancerAttributes, result(members("Attributes")))
		s.on(describeClassicBalancers, result(members("LoadBalancerDescriptions", element("LoadBalancerName", "x"))))
		s.on(describeClassicTags, tagsOf(false))
		s.on(describeClassicAttributes, result("<LoadBalancerAttributes/>"))
	}
	read := func(c *Client) (requests int, err error) {
		count := func() int {
			return len(s.sent(describeTargetGroupAttributes)) + len(s.sent(describeLoadBalancerAttributes)) + len(s.sent(describeClassicAttributes))
		}
		before := count()
		_, err = complete(t, c)
		return count() - before, err
	}
	none := result(members("Attributes"))
	throttled := refused(400, "Throttling", "Rate exceeded")

	prepare(none, throttled, none)
	c := client(t, s, Options{AttributesFor: time.Hour})
	if n, err := read(c); n != 3 || kind(err) != Throttled {
		t.Errorf("first inventory: %d requests for attributes and %v, want 3 and to be throttled", n, err)
	}
	if n, err := read(c); n != 2 || err != nil {
		t.Errorf("second inventory: %d requests for attributes, want only the 2 that were not made before; %v", n, err)
	}
	if n, err := read(c); n != 0 || err != nil {
		t.Errorf("third inventory: %d requests for attributes, want none; %v", n, err)
	}

	prepare(none)
	c = client(t, s, Options{AttributesFor: -1})
	for range 2 {
		if n, err := read(c); n != 4 || err != nil {
			t.Errorf("out of date: %d requests for attributes, want 4; %v", n, err)
		}
	}
	if _, err := c.Groups(t.Context()); err != nil {
		t.Error(err)
	}
	if n := len(c.attributes.entries); n != 0 {
		t.Errorf("the attributes of %d groups are kept though they are out of date", n)
	}
}

func TestCrossZone(t *testing.T) {
	for name, test := range map[string]struct {
		protocol, own string
		balancers     []string
		answers       []string
		want          bool
	}{
		"own on":              {"TCP", "true", []string{"n"}, nil, true},
		"own off":             {"HTTP", "false", []string{"n"}, nil, false},
		"application":         {"HTTP", "use_load_balancer_configuration", []string{"n"}, nil, true},
		"network off":         {"TCP", "use_load_balancer_configuration", []string{"n"}, []string{"false"}, false},
		"network on":          {"UDP", "use_load_balancer_configuration", []string{"n"}, []string{"true"}, true},
		"network says naught": {"TCP", "", []string{"n"}, []string{""}, false},
		"one of two":          {"TCP", "", []string{"n", "m"}, []string{"true", "false"}, false},
		"the other of two":    {"TCP", "", []string{"n", "m"}, []string{"false", "true"}, false},
		"network not in use":  {"TCP", "", nil, nil, false},
		"new word":            {"TCP", "sometimes", []string{"n"}, []string{"false"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			c := client(t, s, Options{})
			s.on(describeTargetGroups, result(members("TargetGroups", targetGroup("arn:1", "ip", test.protocol, members("LoadBalancerArns", test.balancers...)))))
			s.on(describeTags, tagsOf(true))
			s.on(describeTargetGroupAttributes, result(pairs("Attributes", "load_balancing.cross_zone.enabled", test.own)))
			var answers []answer
			for _, value := range test.answers {
				answers = append(answers, result(pairs("Attributes", "load_balancing.cross_zone.enabled", value)))
			}
			s.on(describeLoadBalancerAttributes, answers...)
			noClassic(s)
			groups, err := complete(t, c)
			if err != nil || len(groups) != 1 || groups[0].CrossZone != test.want {
				t.Errorf("%+v %v, want %v", groups, err, test.want)
			}
		})
	}
}

func TestDelay(t *testing.T) {
	for value, want := range map[string]time.Duration{"": 5 * time.Minute, "0": 0, "3600": time.Hour, "soon": time.Hour, "-1": time.Hour} {
		if got := delay(value); got != want {
			t.Errorf("%q is %s, want %s", value, got, want)
		}
	}
}
