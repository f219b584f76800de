package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// shown is what of an answer is printed, and how.
type shown struct{ query, output string }

// takeShown takes the options that every operation has out of a command line.
func takeShown(args []string) (s shown, rest []string, err error) {
	s.output = "json"
	for len(args) > 0 {
		into := map[string]*string{"--query": &s.query, "--output": &s.output}[args[0]]
		switch {
		case into == nil:
			rest, args = append(rest, args[0]), args[1:]
		case len(args) < 2:
			return s, nil, fmt.Errorf("%s needs a value", args[0])
		default:
			*into, args = args[1], args[2:]
		}
	}
	if s.output != "json" && s.output != "text" {
		return s, nil, fmt.Errorf("--output %s is not imitated", s.output)
	}
	return s, rest, nil
}

func (s shown) print(answer any, out io.Writer) error {
	if s.query != "" {
		var err error
		if answer, err = query(answer, s.query); err != nil {
			return err
		}
	}
	if s.output == "text" {
		_, err := io.WriteString(out, text(answer)+"\n")
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "    ")
	return encoder.Encode(answer)
}

// text is a value, or the values of a list with tabs between them, or lists in lines. There is no text of an
// object here, whose fields the CLI prints in an order that says nothing.
func text(answer any) string {
	switch v := answer.(type) {
	case nil:
		return "None"
	case []any:
		separator := "\t"
		var parts []string
		for _, item := range v {
			if _, row := item.([]any); row {
				separator = "\n"
			}
			parts = append(parts, text(item))
		}
		return strings.Join(parts, separator)
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	}
	return fmt.Sprint(answer)
}

// step is one of a path: a name, an element of a list by its number, or each of them.
var step = regexp.MustCompile(`^\.?([A-Za-z][A-Za-z0-9]*)|^\[([0-9]*)\]`)

// query finds what an expression of JMESPath asks for, of which it knows paths, such as
// TargetGroups[0].TargetGroupArn, and lists of paths, such as Targets[].[Id, Port].
func query(value any, path string) (any, error) {
	if path == "" {
		return value, nil
	}
	if list, begins := strings.CutPrefix(strings.TrimPrefix(path, "."), "["); begins && strings.HasSuffix(list, "]") && !step.MatchString(path) {
		var out []any
		for each := range strings.SplitSeq(strings.TrimSuffix(list, "]"), ",") {
			found, err := query(value, strings.TrimSpace(each))
			if err != nil {
				return nil, err
			}
			out = append(out, found)
		}
		return out, nil
	}
	at := step.FindStringSubmatch(path)
	if at == nil {
		return nil, fmt.Errorf("--query: %q is not imitated", path)
	}
	rest := path[len(at[0]):]
	if at[1] != "" {
		object, _ := value.(map[string]any)
		return query(object[at[1]], rest)
	}
	list, _ := value.([]any)
	if at[2] != "" {
		n, err := strconv.Atoi(at[2])
		if err != nil || n >= len(list) {
			return nil, err
		}
		return query(list[n], rest)
	}
	out := []any{}
	for _, item := range list {
		found, err := query(item, rest)
		if err != nil {
			return nil, err
		}
		if found != nil {
			out = append(out, found)
		}
	}
	return out, nil
}
