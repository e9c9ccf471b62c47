package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/schema"
)

// maxHintArgs bounds the arguments that a hint spells out, in bytes; of longer
// ones those that are required are named only.
const maxHintArgs = 400

// askWith says what to call to see whether a call has happened: the tool, and
// of its arguments what is known. Known is what the verification makes of the
// call's own arguments or, without one, those of the same name.
func (s *Subject) askWith(verify string) string {
	const purpose = " to see whether it has"
	route, ok := s.Snapshot.Lookup(verify)
	if !ok {
		return verify + purpose
	}
	known := s.knownArgs(route)
	with := ""
	switch text, err := schema.Canonical(known); {
	case err != nil || len(text) > maxHintArgs:
		known = nil
	case len(known) > 0:
		with = " with " + string(text)
	}
	missing := slices.DeleteFunc(route.Schema.Required(), func(name string) bool { _, has := known[name]; return has })
	switch {
	case len(missing) == 0:
		return verify + with + purpose
	case with == "":
		return fmt.Sprintf("%s with the fitting %s%s", verify, strings.Join(missing, ", "), purpose)
	default:
		return fmt.Sprintf("%s%s and the fitting %s%s", verify, with, strings.Join(missing, ", "), purpose)
	}
}

// secretField reports that a field of the arguments, as errors name it, is one
// whose value is never shown.
func (s *Subject) secretField(field string) bool {
	return field != "" && s.Route.Schema.Secret(schema.FieldPath(field)...)
}

// knownArgs are the arguments to ask with, as far as they follow from the
// call's own. What the schema of the tool that is asked refuses is not known.
func (s *Subject) knownArgs(with *catalog.Route) map[string]any {
	known := map[string]any{}
	if v := s.Route.Verification; v != nil && v.Tool == with.Tool.Name {
		if text, err := v.Program.Arguments(s.About); err == nil {
			known, _ = with.Schema.ParseArgs(string(text))
		}
	} else {
		for _, name := range with.Schema.Properties() {
			if value, given := s.About.Args[name]; given {
				known[name] = value
			}
		}
	}
	secrets := s.Route.Schema.SecretTexts(s.About.Args)
	for name, value := range known {
		shown := fmt.Sprint(value)
		if with.Schema.Secret(name) ||
			slices.ContainsFunc(secrets, func(secret string) bool { return strings.Contains(shown, secret) }) {
			delete(known, name)
		}
	}
	_, _, violations := with.Schema.Check(known)
	for _, violation := range violations {
		if path := schema.FieldPath(violation.Field); len(path) > 0 {
			delete(known, path[0])
		}
	}
	return known
}
