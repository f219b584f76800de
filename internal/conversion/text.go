package conversion

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/equality"
)

func equal[T any](a, b T) bool { return equality.Semantic.DeepEqual(a, b) }

// YAML is the IngressDaemonSet as a file that can be applied, with the notes as comments. An error is that
// a name or a value cannot be written, which the API server has not let through either.
func (c Converted) YAML() (string, error) {
	data, err := json.Marshal(c.Set)
	if err != nil {
		return "", fmt.Errorf("encoding: %w", err)
	}
	// JSON is YAML, in the order of the types' fields.
	var document yaml.Node
	if err := yaml.Unmarshal(escaped(data), &document); err != nil {
		return "", fmt.Errorf("encoding: %w", err)
	}
	root := document.Content[0]
	remove(root, "status")
	tidy(root)
	for _, n := range c.Notes {
		comment(root, n)
	}
	var out bytes.Buffer
	out.WriteString(wrapped("An IngressDaemonSet of what runs as "+c.From+". Read the comments before it is applied: each says what a field was and is, or what was left out.") + "\n")
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(root); err != nil {
		return "", fmt.Errorf("encoding: %w", err)
	}
	if err := encoder.Close(); err != nil {
		return "", fmt.Errorf("encoding: %w", err)
	}
	return out.String(), nil
}

// escaped is JSON without characters that YAML does not take as they are, or takes for the end of a line.
func escaped(data []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(data) {
		if r >= '\u007f' && r <= '\uffff' && !unicode.IsPrint(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
			continue
		}
		out.WriteRune(r)
	}
	return out.Bytes()
}

// remove takes a key and its value out of a mapping.
func remove(mapping *yaml.Node, key string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content = slices.Delete(mapping.Content, i, i+2)
			return
		}
	}
}

// structs are fields that are written although nothing stands in them.
var structs = []string{"healthChecker", "metadata", "order", "resources", "updateStrategy"}

// tidy writes JSON as people write YAML: in lines, with quotes where they are needed.
func tidy(n *yaml.Node) {
	n.Style = 0
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		n.Style = styleOf(n.Value)
	}
	for _, inner := range n.Content {
		tidy(inner)
	}
	if n.Kind != yaml.MappingNode {
		return
	}
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		nothing := value.Kind == yaml.MappingNode && len(value.Content) == 0
		if nothing && slices.Contains(structs, key) || value.Tag == "!!null" && key == "creationTimestamp" {
			n.Content = slices.Delete(n.Content, i, i+2)
		}
	}
}

var (
	// bare needs no quotes, whichever version of YAML it is read by.
	bare = regexp.MustCompile(`^(--)?[A-Za-z/](?:[-\w./@=,+]|[: ][-\w./@=,+])*$`)
	// readOtherwise are words that some version of YAML takes for something else.
	readOtherwise = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
	// block may stand in lines of its own.
	block = regexp.MustCompile("^[!-~](?:[ -~]|\n)*\n(?:[ -~]|\n)*$")
)

func styleOf(value string) yaml.Style {
	switch {
	case block.MatchString(value):
		return yaml.LiteralStyle
	case bare.MatchString(value) && !slices.Contains(readOtherwise, strings.ToLower(value)):
		return 0
	}
	return yaml.DoubleQuotedStyle
}

// comment puts a note above its field, or above the innermost that there is.
func comment(root *yaml.Node, n Note) {
	at, value := root, root
	for _, part := range strings.Split(n.Field, ".") {
		key, inner := child(value, part)
		if inner == nil {
			break
		}
		at, value = key, inner
	}
	at.HeadComment = strings.TrimPrefix(at.HeadComment+"\n"+wrapped(n.Text+"."), "\n")
}

// child is a field of a mapping, or an element of a list by its number; nil where there is none.
func child(n *yaml.Node, name string) (key, value *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				return n.Content[i], n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	}
	return nil, nil
}

// commentWidth is how long a line of a comment may be, beside its indent.
const commentWidth = 88

func wrapped(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	var lines []string
	line := "#"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > commentWidth && line != "#" {
			lines, line = append(lines, line), "#"
		}
		line += " " + word
	}
	return strings.Join(append(lines, line), "\n")
}
