package cloud

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

// MaxScale is the most that time may be compressed: beyond it the lags of AWS would be
// no longer than what a test machine takes for things of its own.
const MaxScale = 10

// Cloud is the account. It may be used from several goroutines.
type Cloud struct {
	timing
	account, region string
	vpc             VPC
	quotas          Quotas

	mu        sync.Mutex
	version   int // of what there is to listen at
	made      int // groups and balancers so far: the same name made again gets another ARN
	number    int // of the last registration
	instances map[string]Instance
	groups    map[string]*group    // by name
	balancers map[string]*balancer // by name
	classics  map[string]*balancer // by name
	byNumber  map[int]*registration
	draws     []Draw
	index     index
}

// index is what is looked up all the time, in accounts of thousands of groups too. It is
// made anew when a group or a balancer comes, changes or goes.
type index struct {
	groups      []*group // of both versions of the API, in a fixed order
	groupsByARN map[string]*group
	balancers   []*balancer            // of both, in a fixed order
	users       map[*group][]*balancer // those with a listener that forwards to the group
}

// reindex makes the index anew.
func (c *Cloud) reindex() {
	x := index{groupsByARN: map[string]*group{}, users: map[*group][]*balancer{}}
	for _, name := range slices.Sorted(maps.Keys(c.groups)) {
		x.groups = append(x.groups, c.groups[name])
		x.groupsByARN[c.groups[name].arn] = c.groups[name]
	}
	for _, name := range slices.Sorted(maps.Keys(c.classics)) {
		x.groups = append(x.groups, c.classics[name].group)
	}
	for _, balancers := range []map[string]*balancer{c.balancers, c.classics} {
		for _, name := range slices.Sorted(maps.Keys(balancers)) {
			x.balancers = append(x.balancers, balancers[name])
		}
	}
	for _, b := range x.balancers {
		for _, g := range b.groups() {
			x.users[g] = append(x.users[g], b)
		}
	}
	c.index = x
}

type group struct {
	TargetGroup
	arn  string
	kind Kind
	live []*registration // registered
	past []*registration // deregistered, and not forgotten yet
}

type balancer struct {
	LoadBalancer
	arn, host string
	kind      Kind
	created   time.Time
	listeners []listener
	classic   *ClassicLoadBalancer
	group     *group // of a classic one
	shifts    []shift
}

type listener struct {
	arn, protocol string
	port          int
	group         *group
	instancePort  int // 0: the port of the target
}

// New makes the account, as of now.
func New(spec Spec, lags map[Kind]Lags, now time.Time) (*Cloud, error) {
	spec.Scale = cmp.Or(spec.Scale, 1)
	if !(spec.Scale >= 1 && spec.Scale <= MaxScale) {
		return nil, fmt.Errorf("scale %g: must be 1 to %d", spec.Scale, MaxScale)
	}
	q := &spec.Quotas
	q.TargetsPerGroup = cmp.Or(q.TargetsPerGroup, 1000)
	q.TargetsPerZone = cmp.Or(q.TargetsPerZone, 500)
	q.RegistrationsPerTarget = cmp.Or(q.RegistrationsPerTarget, 100)
	q.TargetsPerCall = cmp.Or(q.TargetsPerCall, 200)
	c := &Cloud{
		timing:  timing{seed: spec.Seed, scale: spec.Scale, unchanged: lags},
		account: cmp.Or(spec.Account, "123456789012"), region: cmp.Or(spec.Region, "eu-central-1"),
		vpc: spec.VPC, quotas: *q, instances: map[string]Instance{}, groups: map[string]*group{},
		balancers: map[string]*balancer{}, classics: map[string]*balancer{}, byNumber: map[int]*registration{},
	}
	c.vpc.ID = cmp.Or(c.vpc.ID, "vpc-1")
	if err := c.SetLags(spec.Lags); err != nil {
		return nil, err
	}
	return c, c.fill(spec, now)
}

func (c *Cloud) fill(spec Spec, now time.Time) error {
	for _, i := range spec.Instances {
		if err := c.PutInstance(i, now); err != nil {
			return err
		}
	}
	for _, g := range spec.TargetGroups {
		if err := c.putTargetGroup(g); err != nil {
			return err
		}
	}
	c.reindex()
	for _, b := range spec.LoadBalancers {
		if err := c.PutLoadBalancer(b, now); err != nil {
			return err
		}
	}
	for _, b := range spec.ClassicLoadBalancers {
		if err := c.PutClassicLoadBalancer(b, now); err != nil {
			return err
		}
	}
	return nil
}

// Account is the account's number.
func (c *Cloud) Account() string { return c.account }

// Region is the account's region.
func (c *Cloud) Region() string { return c.region }

// Seed is that of every draw.
func (c *Cloud) Seed() uint64 { return c.seed }

// Scaled is a time of AWS as it is in this run.
func (c *Cloud) Scaled(d time.Duration) time.Duration { return c.scaled(d) }

func (c *Cloud) resource(path string) string {
	return fmt.Sprintf("arn:aws:elasticloadbalancing:%s:%s:%s", c.region, c.account, path)
}

// suffix is the part of an ARN that is no name's.
func (c *Cloud) suffix(name string) string {
	c.made++
	return fmt.Sprintf("%016x", digest(strconv.FormatUint(c.seed, 10), name, strconv.Itoa(c.made)))
}

// allGroups are those of both versions of the API, in a fixed order.
func (c *Cloud) allGroups() []*group { return c.index.groups }

func (c *Cloud) allBalancers() []*balancer { return c.index.balancers }

// balancersOf are those with a listener that forwards to the group.
func (c *Cloud) balancersOf(g *group) []*balancer { return c.index.users[g] }

func (b *balancer) hasZone(name string) bool {
	return slices.ContainsFunc(b.Zones, func(z Zone) bool { return z.Name == name })
}

// zoneOf is the zone of the subnet that an address is in; without one it is outside the VPC.
func (c *Cloud) zoneOf(address netip.Addr) (string, bool) {
	for _, s := range c.vpc.Subnets {
		if s.CIDR.Contains(address) {
			return s.Zone, true
		}
	}
	return "", false
}
