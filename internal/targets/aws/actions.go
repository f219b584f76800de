package aws

// Class is what a call is for, by which callers order and limit calls.
type Class string

// Classes of calls.
const (
	Deregister Class = "deregister"
	Register   Class = "register"
	Read       Class = "read"
)

// Call is one request that is about to be sent.
type Call struct {
	Class Class
	// Action is its name in the API, such as DescribeTargetHealth.
	Action string
	// Group is the ID of the group that it is about, empty where it is about many.
	Group string
}

// Versions of the two APIs, which share an endpoint and a prefix in policies.
const (
	version2       = "2015-12-01"
	versionClassic = "2012-06-01"
)

// Action is a kind of request that the client can send.
type Action struct {
	// Version tells the API of target groups from that of classic load balancers.
	Version, Name string
	Class         Class
}

// Permission is the action as IAM policies have it. Both versions of the API share
// their permissions.
func (a Action) Permission() string { return "elasticloadbalancing:" + a.Name }

var (
	describeTargetGroups           = Action{version2, "DescribeTargetGroups", Read}
	describeTargetGroupAttributes  = Action{version2, "DescribeTargetGroupAttributes", Read}
	describeLoadBalancerAttributes = Action{version2, "DescribeLoadBalancerAttributes", Read}
	describeTags                   = Action{version2, "DescribeTags", Read}
	describeTargetHealth           = Action{version2, "DescribeTargetHealth", Read}
	registerTargets                = Action{version2, "RegisterTargets", Register}
	deregisterTargets              = Action{version2, "DeregisterTargets", Deregister}

	describeClassicBalancers  = Action{versionClassic, "DescribeLoadBalancers", Read}
	describeClassicAttributes = Action{versionClassic, "DescribeLoadBalancerAttributes", Read}
	describeClassicTags       = Action{versionClassic, "DescribeTags", Read}
	describeInstanceHealth    = Action{versionClassic, "DescribeInstanceHealth", Read}
	registerInstances         = Action{versionClassic, "RegisterInstancesWithLoadBalancer", Register}
	deregisterInstances       = Action{versionClassic, "DeregisterInstancesFromLoadBalancer", Deregister}
)

// AssumeRole and TagSession are the permissions that are needed beside those of Actions
// where Options name a role. They are granted on the role's ARN. The second one is for tags
// that go over from the session that assumes it: those of EKS Pod Identity do
// (https://docs.aws.amazon.com/eks/latest/userguide/pod-id-abac.html).
const (
	AssumeRole = "sts:AssumeRole"
	TagSession = "sts:TagSession"
)

// Actions are all requests that the client can send to Elastic Load Balancing. What
// it needs to be granted is their permissions, and no others: config/aws/policy.json.
func Actions() []Action {
	return []Action{
		describeTargetGroups, describeTargetGroupAttributes, describeLoadBalancerAttributes, describeTags,
		describeTargetHealth, registerTargets, deregisterTargets,
		describeClassicBalancers, describeClassicAttributes, describeClassicTags,
		describeInstanceHealth, registerInstances, deregisterInstances,
	}
}
