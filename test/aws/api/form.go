package api

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// params are the parameters of a call, as the AWS query protocol writes them: a list is
// Name.member.1, Name.member.2 and so on, a structure Name.Field.
type params struct{ url.Values }

func (p params) text(name string) string { return p.Get(name) }

func (p params) number(name string) (int, error) {
	text := p.text(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, invalid("%s must be a number: %s", name, text)
	}
	return n, nil
}

// list is a list of strings, or of one field of structures: field is then .Field.
func (p params) list(name, field string) []string {
	var list []string
	for i := 1; ; i++ {
		key := fmt.Sprintf("%s.member.%d", name, i)
		if !p.Has(key + field) {
			return list
		}
		list = append(list, p.text(key+field))
	}
}

// targets is the list of targets.
func (p params) targets() ([]cloud.Target, error) {
	var list []cloud.Target
	for i, id := range p.list("Targets", ".Id") {
		key := fmt.Sprintf("Targets.member.%d", i+1)
		port, err := p.number(key + ".Port")
		if err != nil {
			return nil, err
		}
		if port == 0 && p.Has(key+".Port") {
			return nil, invalid("Port '0' is not valid: it must be between 1 and 65535")
		}
		list = append(list, cloud.Target{ID: id, Port: port, Zone: p.text(key + ".AvailabilityZone"), QuicServerID: p.text(key + ".QuicServerId")})
	}
	return list, nil
}

var index = regexp.MustCompile(`\.\d+`)

// check refuses what the server does not understand, so that nothing is asked for in vain.
func (p params) check(understood []string) error {
	for _, name := range slices.Sorted(maps.Keys(p.Values)) {
		general := index.ReplaceAllString(name, ".#")
		if name != "Action" && name != "Version" && !slices.Contains(understood, general) {
			return invalid("this server does not model the parameter %s", name)
		}
	}
	return nil
}
