package controller

import (
	"fmt"
	"os"
	"regexp"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"sigs.k8s.io/yaml"
)

// roleARN is what the API takes for the ARN of a role.
var roleARN = regexp.MustCompile(`^arn:[a-z-]+:iam::[0-9]{12}:role/([!-~]+/)?[0-9A-Za-z_+=,.@-]+$`)

// ReadRoles reads a file of the roles that may be assumed: in YAML, roles, each with arn and,
// where it is assumed with one, externalID.
func ReadRoles(file string) ([]v1alpha1.AssumeRole, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var read struct {
		Roles []v1alpha1.AssumeRole `json:"roles"`
	}
	if err := yaml.UnmarshalStrict(content, &read); err != nil {
		return nil, err
	}
	for i, role := range read.Roles {
		switch {
		case !roleARN.MatchString(role.ARN):
			return nil, fmt.Errorf("%q is not the ARN of a role, such as arn:aws:iam::123456789012:role/ingress", role.ARN)
		case slices.Contains(read.Roles[:i], role):
			return nil, fmt.Errorf("role %s is there twice with the same external ID", role.ARN)
		}
	}
	return read.Roles, nil
}

// refusal says what to change where a role may not be assumed. It tells no external ID: not
// all who read it may read the object that has it.
func refusal(role v1alpha1.AssumeRole) string {
	with := "without an external ID"
	if role.ExternalID != "" {
		with = "with the external ID that is given"
	}
	return fmt.Sprintf("role %s may not be assumed %s: have whoever operates the controller add that to the file of --assume-roles-file and restart it", role.ARN, with)
}
