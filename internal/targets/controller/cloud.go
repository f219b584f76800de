package controller

import (
	"context"

	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

// Cloud is where target groups are. Another cloud is one package that has these.
type Cloud interface {
	// Region is where its groups are, empty where it has none.
	Region() string
	// Groups are all that may be looked at. Their attributes may be missing, and their Tags
	// nil.
	Groups(context.Context) ([]targets.Group, error)
	// Named are those of some that there are, as Groups has them.
	Named(context.Context, []targets.GroupName) ([]targets.Group, error)
	// Tags are those of some groups, by ID, without those that are gone.
	Tags(context.Context, []targets.Group) (map[string]map[string]string, error)
	// Describe is a group with its attributes.
	Describe(context.Context, targets.Group) (targets.Group, error)
	// List is the inventory of a group, or of only some targets, those that are not
	// registered included.
	List(ctx context.Context, g targets.Group, only []targets.Target) (map[targets.Target]targets.Health, error)
	Register(context.Context, targets.Group, []targets.Registration) error
	Deregister(context.Context, targets.Group, []targets.Target) error
}
