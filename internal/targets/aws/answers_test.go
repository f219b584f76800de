package aws

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// members is a list of the query protocol.
func members(name string, of ...string) string {
	if len(of) == 0 {
		return "<" + name + "/>"
	}
	return "<" + name + "><member>" + strings.Join(of, "</member><member>") + "</member></" + name + ">"
}

// element is one value.
func element(name, value string) string { return "<" + name + ">" + value + "</" + name + ">" }

// pairs are attributes or tags, given as keys and values in turn.
func pairs(name string, of ...string) string {
	var list []string
	for pair := range slices.Chunk(of, 2) {
		list = append(list, element("Key", pair[0])+element("Value", pair[1]))
	}
	return members(name, list...)
}

func targetGroup(arn, kind, protocol string, more ...string) string {
	return element("TargetGroupArn", arn) + element("TargetGroupName", "n-"+arn) + element("TargetType", kind) +
		element("Protocol", protocol) + strings.Join(more, "")
}

// tagsOf answers DescribeTags with a tag for each group that was asked for.
func tagsOf(version2 bool) answer {
	return func(w http.ResponseWriter, r request) {
		parameter, name := "ResourceArns", "ResourceArn"
		if !version2 {
			parameter, name = "LoadBalancerNames", "LoadBalancerName"
		}
		var list []string
		for i := 1; r.form.Has(fmt.Sprintf("%s.member.%d", parameter, i)); i++ {
			id := r.form.Get(fmt.Sprintf("%s.member.%d", parameter, i))
			list = append(list, element(name, id)+pairs("Tags", "of", id))
		}
		result(members("TagDescriptions", list...))(w, r)
	}
}

func noClassic(s *server) {
	s.on(describeClassicBalancers, result(members("LoadBalancerDescriptions")))
}

// everything puts down an answer to each action.
func everything(s *server) {
	s.on(describeTargetGroups, result(members("TargetGroups", targetGroup("arn:1", "ip", "TCP", members("LoadBalancerArns", nlbARN)))))
	s.on(describeTags, tagsOf(true))
	s.on(describeTargetGroupAttributes, result(members("Attributes")))
	s.on(describeLoadBalancerAttributes, result(members("Attributes")))
	s.on(describeTargetHealth, result(members("TargetHealthDescriptions")))
	s.on(registerTargets, result(""))
	s.on(deregisterTargets, result(""))
	s.on(describeClassicBalancers, result(members("LoadBalancerDescriptions", element("LoadBalancerName", "x"))))
	s.on(describeClassicTags, tagsOf(false))
	s.on(describeClassicAttributes, result("<LoadBalancerAttributes/>"))
	s.on(describeInstanceHealth, result(members("InstanceStates")))
	s.on(registerInstances, result(members("Instances")))
	s.on(deregisterInstances, result(members("Instances")))
}
