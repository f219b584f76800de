package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// between is how long is waited between two looks.
const between = 200 * time.Millisecond

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(between):
		return nil
	}
}

// fill sets the fields of an operation's input that options name.
func fill(input reflect.Value, args []string) error {
	for len(args) > 0 {
		option, isOption := strings.CutPrefix(args[0], "--")
		if !isOption {
			return fmt.Errorf("%q is no option", args[0])
		}
		args = args[1:]
		values := 0
		for values < len(args) && !strings.HasPrefix(args[values], "--") {
			values++
		}
		if err := set(input, option, args[:values]); err != nil {
			return fmt.Errorf("--%s: %w", option, err)
		}
		args = args[values:]
	}
	return nil
}

// set sets the field of an option.
func set(input reflect.Value, option string, values []string) error {
	word := strings.ReplaceAll(option, "-", "")
	field := input.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, word) })
	if !field.IsValid() {
		return fmt.Errorf("the operation has no such option")
	}
	if !field.IsZero() {
		return fmt.Errorf("it is there twice")
	}
	if field.Kind() == reflect.Slice {
		for _, value := range values {
			item := reflect.New(field.Type().Elem()).Elem()
			if err := assign(item, value); err != nil {
				return err
			}
			field.Set(reflect.Append(field, item))
		}
		if len(values) == 0 {
			return fmt.Errorf("it needs a value")
		}
		return nil
	}
	if len(values) != 1 {
		return fmt.Errorf("it has %d values, and takes one", len(values))
	}
	return assign(field, values[0])
}

// assign gives a field of any type but a list a value: what file:// and a path name, a structure in the CLI's
// shorthand, or the value itself.
func assign(field reflect.Value, value string) error {
	if path, named := strings.CutPrefix(value, "file://"); named {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		value = string(content)
	}
	if field.Kind() == reflect.Pointer {
		field.Set(reflect.New(field.Type().Elem()))
		field = field.Elem()
	}
	switch field.Kind() {
	case reflect.String:
		field.SetString(value)
		return permitted(field, value)
	case reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(value, 10, field.Type().Bits())
		field.SetInt(n)
		return err
	case reflect.Struct:
		return shorthand(field, value)
	}
	return fmt.Errorf("what is a %s is not imitated", field.Type())
}

// permitted is an error where a field has a list of values, and this is none of them.
func permitted(field reflect.Value, value string) error {
	values := field.MethodByName("Values")
	if !values.IsValid() {
		return nil
	}
	list := values.Call(nil)[0]
	for i := range list.Len() {
		if list.Index(i).String() == value {
			return nil
		}
	}
	return fmt.Errorf("%q is none of %v", value, list.Interface())
}

// shorthand reads a structure as the CLI has people write it: Key=team,Value=web. JSON is taken too.
func shorthand(structure reflect.Value, text string) error {
	if strings.HasPrefix(text, "{") {
		return json.Unmarshal([]byte(text), structure.Addr().Interface())
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(part, "=")
		field := structure.FieldByName(name)
		if !found || !field.IsValid() {
			return fmt.Errorf("%q is not NAME=VALUE with a name of %s", part, structure.Type())
		}
		if err := assign(field, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
