package kubectl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/listing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// routesFlags are those of routes.
type routesFlags struct {
	everywhere  bool
	set, output string
	asked       table.Asked
}

func (o *operator) routes() *cobra.Command {
	var f routesFlags
	c := &cobra.Command{
		Use:   "routes [HOST PATH]",
		Short: "List what the proxies that come with the controller serve, or say which rule serves a request, and why",
		Long: `List what the proxies that come with the controller serve: each rule with its backends, how many of their
endpoints are ready, and what is wrong. With HOST and PATH it says which rule serves that request, and why no
other does. It is compiled from the objects of the cluster as the controller does it; Secrets are not read.`,
		Example: examples("kubectl ids routes shop.example.com /cart", "kubectl ids routes", "kubectl ids routes -A",
			"kubectl ids routes shop.example.com:8080 /cart --method POST --header Version:2"),
		Args: hostAndPath,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.read(c, args); err != nil {
				return err
			}
			api, namespace, err := o.connect()
			if err != nil {
				return err
			}
			objects, err := readRouting(c.Context(), api)
			if err != nil {
				return err
			}
			r, err := compileRouting(objects, time.Now()).of(f.set, namespace)
			if err != nil {
				return err
			}
			if f.everywhere {
				namespace = ""
			}
			return o.showRoutes(r, f, namespace)
		},
	}
	addEverywhere(c, &f.everywhere)
	flags := c.Flags()
	flags.StringVar(&f.set, "ingressdaemonset", "", "those of the proxies of this IngressDaemonSet, as NAME or NAMESPACE/NAME")
	flags.StringVar(&f.asked.Method, "method", "", "the request's method, GET by default")
	flags.StringVar(&f.asked.Scheme, "scheme", "", "http or https; http by default")
	flags.StringArrayVar(&f.asked.Headers, "header", nil, "a header of the request, as 'NAME: VALUE'; may be given again")
	flags.StringVarP(&f.output, "output", "o", "", "json or yaml")
	return c
}

// hostAndPath wants both or neither.
func hostAndPath(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 1:
		return missing(c, "PATH")
	case len(args) > 2:
		return fmt.Errorf("unexpected argument %q: the usage is %s", args[2], c.UseLine())
	}
	return nil
}

// read takes the arguments, and says what is wrong before the cluster is asked.
func (f *routesFlags) read(c *cobra.Command, args []string) error {
	if err := oneOf(f.output, "json", "yaml"); err != nil {
		return err
	}
	if len(args) == 0 {
		for _, name := range []string{"method", "scheme", "header"} {
			if c.Flags().Changed(name) {
				return fmt.Errorf("--%s is of a request: give its HOST and PATH, for example: %s", name, firstExample(c))
			}
		}
		return nil
	}
	f.asked.Host, f.asked.Target = args[0], args[1]
	_, err := f.asked.Request()
	return err
}

// showRoutes prints all of a namespace, empty for all, or the answer to a question: an error where nothing serves
// the request.
func (o *operator) showRoutes(r routed, f routesFlags, namespace string) error {
	if f.asked.Host == "" {
		out := r.list(namespace)
		if len(out.Rules)+len(out.Problems) == 0 && f.output == "" {
			fmt.Fprintln(o.streams.ErrOut, "No routes found")
			return nil
		}
		return printAs(o.streams.Out, f.output, out, out.text)
	}
	out, err := r.answer(f.asked)
	if err != nil {
		return err
	}
	if err := printAs(o.streams.Out, f.output, out, out.text); err != nil || out.served() {
		return err
	}
	var hosts []string
	for _, set := range r.sets() {
		hosts = append(hosts, listing.Hosts(r.tables[set])...)
	}
	slices.Sort(hosts)
	suggestion := ""
	if near := nearest(f.asked.Host, hosts); near != f.asked.Host {
		suggestion = meant("", near)
	}
	return errors.New(printable("no rule serves it" + suggestion))
}

// printAs prints a value in an output format, or its text.
func printAs(w io.Writer, output string, value any, text func() string) error {
	var content []byte
	var err error
	switch output {
	case "json":
		content, err = json.MarshalIndent(value, "", "    ")
		content = append(content, '\n')
	case "yaml":
		content, err = yaml.Marshal(value)
	default:
		content = []byte(text())
	}
	if err == nil {
		_, err = w.Write(content)
	}
	return err
}
