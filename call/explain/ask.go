package explain

import (
	"encoding/json"
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
	wanted := propertiesOf(route.Tool.InputSchema)
	known := s.knownArgs(route, wanted)
	with := ""
	switch text, err := schema.Canonical(known); {
	case err != nil || len(text) > maxHintArgs:
		known = nil
	case len(known) > 0:
		with = " with " + string(text)
	}
	missing := slices.DeleteFunc(wanted.Required, func(name string) bool { _, has := known[name]; return has })
	switch {
	case len(missing) == 0:
		return verify + with + purpose
	case with == "":
		return fmt.Sprintf("%s with the fitting %s%s", verify, strings.Join(missing, ", "), purpose)
	default:
		return fmt.Sprintf("%s%s and the fitting %s%s", verify, with, strings.Join(missing, ", "), purpose)
	}
}

// properties are the top level of an input schema.
type properties struct {
	Properties map[string]struct {
		Format    string `json:"format"`
		WriteOnly bool   `json:"writeOnly"`
	} `json:"properties"`
	Required []string `json:"required"`
}

// propertiesOf reads what it can; what is not an object has no properties.
func propertiesOf(inputSchema json.RawMessage) properties {
	var p properties
	if json.Unmarshal(inputSchema, &p) != nil {
		return properties{} // valid JSON Schemas may be written otherwise: then nothing is known
	}
	return p
}

// secret reports properties whose values are never shown.
func (p properties) secret(name string) bool {
	property := p.Properties[name]
	return property.WriteOnly || property.Format == "password"
}

// secretField reports that a field of the arguments, as errors name it, is in a
// property whose value is never shown.
func (s *Subject) secretField(field string) bool {
	top := topOf(field)
	return top != "" && (slices.Contains(s.Route.Tool.Policy.Sensitive, top) || propertiesOf(s.Route.Tool.InputSchema).secret(top))
}

// topOf is the property of the arguments that a field belongs to.
func topOf(field string) string {
	if quoted, odd := strings.CutPrefix(field, "["); odd { // ["x.y"]
		var name string
		if json.NewDecoder(strings.NewReader(quoted)).Decode(&name) == nil {
			return name
		}
	}
	top, _, _ := strings.Cut(strings.TrimLeft(field, "."), ".")
	top, _, _ = strings.Cut(top, "[")
	return top
}

// knownArgs are the arguments to ask with, as far as they follow from the
// call's own. What the schema of the tool that is asked refuses is not known.
func (s *Subject) knownArgs(with *catalog.Route, wanted properties) map[string]any {
	known := map[string]any{}
	if v := s.Route.Verification; v != nil && v.Tool == with.Tool.Name {
		if text, err := v.Program.Arguments(s.About); err == nil {
			known, _ = with.Schema.ParseArgs(string(text))
		}
	} else {
		for name := range wanted.Properties {
			if value, given := s.About.Args[name]; given {
				known[name] = value
			}
		}
	}
	secrets := s.secretValues()
	for name, value := range known {
		shown := fmt.Sprint(value)
		if slices.Contains(with.Tool.Policy.Sensitive, name) || wanted.secret(name) ||
			slices.ContainsFunc(secrets, func(secret string) bool { return strings.Contains(shown, secret) }) {
			delete(known, name)
		}
	}
	_, _, violations := with.Schema.Check(known)
	for _, violation := range violations {
		delete(known, topOf(violation.Field))
	}
	return known
}

// secretValues are the arguments of the call that are never shown.
func (s *Subject) secretValues() []string {
	var secrets []string
	own := propertiesOf(s.Route.Tool.InputSchema)
	for name, value := range s.About.Args {
		if text := fmt.Sprint(value); text != "" && (own.secret(name) || slices.Contains(s.Route.Tool.Policy.Sensitive, name)) {
			secrets = append(secrets, text)
		}
	}
	return secrets
}
