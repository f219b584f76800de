package kubectl

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Whatever is amiss in a command line is told before the cluster is asked: a command or flag that there
// is not, with the name that was most likely meant; an argument that is missing, with an example.

// wantCommand makes an error of a command that c does not have, where cobra would show help: no script
// is to take a slip of the pen for done.
func wantCommand(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return unknownCommand(c, args[0])
	}
}

// wantArguments has every command that does something want the arguments that it names.
func (o *operator) wantArguments(c *cobra.Command) {
	for _, inner := range c.Commands() {
		o.wantArguments(inner)
	}
	if c.HasSubCommands() {
		return
	}
	if c.Args == nil {
		c.Args = named
	}
	if c.ValidArgsFunction == nil {
		c.ValidArgsFunction = o.complete
	}
}

func unknownCommand(c *cobra.Command, name string) error {
	var names []string
	for _, inner := range c.Commands() {
		names = append(names, inner.Name())
	}
	return fmt.Errorf("unknown command %q for %q%s See %s --help", name, c.CommandPath(), cmp.Or(meant("", nearest(name, names)), "."), c.CommandPath())
}

// flagError names the flag that was most likely meant. Flags of a command that there is not are
// unknown because of that.
func flagError(c *cobra.Command, err error) error {
	if c.HasSubCommands() && c.Flags().NArg() > 0 {
		return unknownCommand(c, c.Flags().Arg(0))
	}
	var names []string
	if unknown := new(pflag.NotExistError); errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		return fmt.Errorf("%w%s See %s --help", err, cmp.Or(meant("--", nearest(unknown.GetSpecifiedName(), names)), "."), c.CommandPath())
	}
	return fmt.Errorf("%w. See %s --help", err, c.CommandPath())
}

// meant asks whether that was meant, if there is anything to ask about.
func meant(prefix, name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", prefix+name)
}

// named wants the arguments that the command's Use names, the last of them once or more where three
// dots follow it.
func named(c *cobra.Command, args []string) error {
	wanted := strings.Fields(c.Use)[1:]
	repeats := len(wanted) > 0 && strings.HasSuffix(wanted[len(wanted)-1], "...")
	switch {
	case len(args) < len(wanted):
		return missing(c, wanted[len(args)])
	case len(args) > len(wanted) && !repeats:
		return fmt.Errorf("unexpected argument %q: the usage is %s", args[len(wanted)], c.UseLine())
	}
	return nil
}

// missing names an argument that is not there, with an example.
func missing(c *cobra.Command, argument string) error {
	return fmt.Errorf("missing argument %s, for example: %s", strings.TrimSuffix(argument, "..."), firstExample(c))
}

// examples are command lines as a help shows them.
func examples(lines ...string) string { return "  " + strings.Join(lines, "\n  ") }

func firstExample(c *cobra.Command) string {
	first, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
	return first
}

// notNegative is an error where a flag is less than nothing.
func notNegative[T int64 | time.Duration](flag string, value T) error {
	if value < 0 {
		return fmt.Errorf("--%s is %v, which is negative", flag, value)
	}
	return nil
}

// oneOf is an error where an output format is none of those that there are.
func oneOf(output string, formats ...string) error {
	for _, format := range formats {
		if output == format || output == "" {
			return nil
		}
	}
	return fmt.Errorf("unable to match a printer suitable for the output format %q, allowed formats are: %s", output, strings.Join(formats, ","))
}

// nearest is the name that was most likely meant by a word, empty where none is near.
func nearest(word string, names []string) string {
	best, least := "", len(word)/3+2
	for _, name := range names {
		d := distance(word, name)
		if len(word) > 1 && d > 0 && strings.HasPrefix(name, word) {
			d = 1
		}
		if d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is how many bytes have to be put in, taken out, replaced or swapped with the next to make
// one word of the other: the optimal string alignment distance.
func distance(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			replaced := last[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(replaced, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
