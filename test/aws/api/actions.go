package api

const (
	version2  = "2015-12-01"
	namespace = "http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/"
)

func v2(class string, resources func(*Server, params) []string, do func(*Server, request) (any, error), parameters ...string) action {
	return action{service: "elasticloadbalancing", namespace: namespace, parameters: parameters, class: class, resources: resources, do: do}
}

// actions are what the server can do, by version and name.
var actions = map[string]action{
	version2 + " DescribeTargetGroups": v2(reading, all, describeTargetGroups,
		"TargetGroupArns.member.#", "Names.member.#", "LoadBalancerArn", "Marker", "PageSize"),
	version2 + " DescribeTargetGroupAttributes": v2(reading, all, describeTargetGroupAttributes, "TargetGroupArn"),
	version2 + " DescribeTargetHealth": v2(reading, all, describeTargetHealth,
		"TargetGroupArn", "Targets.member.#.Id", "Targets.member.#.Port", "Targets.member.#.AvailabilityZone", "Targets.member.#.QuicServerId"),
	version2 + " RegisterTargets": v2(registering, targetGroup, registerTargets,
		"TargetGroupArn", "Targets.member.#.Id", "Targets.member.#.Port", "Targets.member.#.AvailabilityZone", "Targets.member.#.QuicServerId"),
	version2 + " DeregisterTargets": v2(registering, targetGroup, deregisterTargets,
		"TargetGroupArn", "Targets.member.#.Id", "Targets.member.#.Port", "Targets.member.#.AvailabilityZone", "Targets.member.#.QuicServerId"),
	version2 + " DescribeLoadBalancers": v2(reading, all, describeLoadBalancers,
		"LoadBalancerArns.member.#", "Names.member.#", "Marker", "PageSize"),
	version2 + " DescribeLoadBalancerAttributes": v2(reading, all, describeLoadBalancerAttributes, "LoadBalancerArn"),
	version2 + " DescribeListeners": v2(reading, all, describeListeners,
		"LoadBalancerArn", "ListenerArns.member.#", "Marker", "PageSize"),
	version2 + " DescribeTags": v2(reading, all, describeTags, "ResourceArns.member.#"),

	version2 + " CreateTargetGroup": v2("", all, createTargetGroup,
		"Name", "Protocol", "Port", "VpcId", "TargetType", "HealthCheckProtocol", "HealthCheckPort", "HealthCheckPath", "HealthCheckIntervalSeconds",
		"HealthCheckTimeoutSeconds", "HealthyThresholdCount", "UnhealthyThresholdCount", "Matcher.HttpCode", "Tags.member.#.Key", "Tags.member.#.Value"),
	version2 + " ModifyTargetGroupAttributes": v2("", targetGroup, modifyTargetGroupAttributes,
		"TargetGroupArn", "Attributes.member.#.Key", "Attributes.member.#.Value"),
	version2 + " CreateLoadBalancer": v2("", all, createLoadBalancer,
		"Name", "Type", "Scheme", "Subnets.member.#", "SecurityGroups.member.#", "Tags.member.#.Key", "Tags.member.#.Value"),
	version2 + " ModifyLoadBalancerAttributes": v2("", resource("LoadBalancerArn"), modifyLoadBalancerAttributes,
		"LoadBalancerArn", "Attributes.member.#.Key", "Attributes.member.#.Value"),
	version2 + " CreateListener": v2("", resource("LoadBalancerArn"), createListener,
		"LoadBalancerArn", "Protocol", "Port", "DefaultActions.member.#.Type", "DefaultActions.member.#.TargetGroupArn"),
	version2 + " DeleteLoadBalancer": v2("", resource("LoadBalancerArn"), deleteLoadBalancer, "LoadBalancerArn"),
	version2 + " DeleteTargetGroup":  v2("", targetGroup, deleteTargetGroup, "TargetGroupArn"),
	version2 + " AddTags":            v2("", tagged, addTags, "ResourceArns.member.#", "Tags.member.#.Key", "Tags.member.#.Value"),

	classicVersion + " DescribeLoadBalancers": classic(classicReading, all, describeClassic,
		"LoadBalancerNames.member.#", "Marker", "PageSize"),
	classicVersion + " DescribeInstanceHealth": classic(classicReading, all, describeInstanceHealth,
		"LoadBalancerName", "Instances.member.#.InstanceId"),
	classicVersion + " RegisterInstancesWithLoadBalancer": classic(classicRegistering, classicBalancer, registerInstances,
		"LoadBalancerName", "Instances.member.#.InstanceId"),
	classicVersion + " DeregisterInstancesFromLoadBalancer": classic(classicRegistering, classicBalancer, deregisterInstances,
		"LoadBalancerName", "Instances.member.#.InstanceId"),
	classicVersion + " DescribeLoadBalancerAttributes": classic(classicReading, all, describeClassicAttributes, "LoadBalancerName"),
	classicVersion + " DescribeTags":                   classic(classicReading, all, describeClassicTags, "LoadBalancerNames.member.#"),

	stsVersion + " GetCallerIdentity": sts(nil, getCallerIdentity),
	stsVersion + " AssumeRole": sts(roleARN, assumeRole, "RoleArn", "RoleSessionName", "DurationSeconds",
		"Tags.member.#.Key", "Tags.member.#.Value", "TransitiveTagKeys.member.#"),
	stsVersion + " AssumeRoleWithWebIdentity": {service: "sts", namespace: stsNamespace, unsigned: true, do: assumeRoleWithWebIdentity,
		parameters: []string{"RoleArn", "RoleSessionName", "WebIdentityToken", "DurationSeconds"}},
}
