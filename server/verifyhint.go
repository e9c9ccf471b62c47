package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sidecall/sidecall/schema"
	"github.com/sidecall/sidecall/tool"
)

// maxHintArgs bounds the arguments that a hint spells out, in bytes; of longer
// ones those that are required are named only.
const maxHintArgs = 400

// askWith says what to call to see whether a call has happened: the tool, and
// of its arguments what is known. Known is what the verification makes of the
// call's own arguments or, without one, those of the same name.
func (c *call) askWith(verify string) string {
	const purpose = " to see whether it has"
	route, ok := c.registry.Lookup(verify)
	if !ok {
		return verify + purpose
	}
	wanted := propertiesOf(route.Tool.InputSchema)
	known := c.knownArgs(route, wanted)
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
func (c *call) secretField(field string) bool {
	top := topOf(field)
	return top != "" && (slices.Contains(c.route.Tool.Policy.Sensitive, top) || propertiesOf(c.route.Tool.InputSchema).secret(top))
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
func (c *call) knownArgs(with *Route, wanted properties) map[string]any {
	known := map[string]any{}
	if v := c.route.Verification; v != nil && v.Tool == with.Tool.Name {
		if text, err := v.Program.Arguments(c.subject()); err == nil {
			known, _ = with.Schema.ParseArgs(string(text))
		}
	} else {
		for name := range wanted.Properties {
			if value, given := c.args[name]; given {
				known[name] = value
			}
		}
	}
	secrets := c.secretValues()
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
func (c *call) secretValues() []string {
	var secrets []string
	own := propertiesOf(c.route.Tool.InputSchema)
	for name, value := range c.args {
		if text := fmt.Sprint(value); text != "" && (own.secret(name) || slices.Contains(c.route.Tool.Policy.Sensitive, name)) {
			secrets = append(secrets, text)
		}
	}
	return secrets
}

// addToHint adds a sentence to the hint of a failed call.
func addToHint(res *response, sentence string) {
	e := res.GetError()
	e.Hint += " " + sentence
	res.Content = tool.RenderError(tool.Error{
		Code: tool.Code(e.GetCode()), Field: e.GetField(), Constraint: e.GetConstraint(),
		Received: e.GetReceived(), Hint: e.GetHint(),
	}, nil)
}

// sayWhenToAsk tells the program of a call that is unknown from when on sending
// it again settles it. The recorded words stay as they are.
func (c *call) sayWhenToAsk(res *response) *response {
	if c.tooEarly > 0 && res.GetRecovery() != nil {
		res.Recovery.RetryAfter = durationpb.New(c.tooEarly)
		res.Notices = append(res.Notices, fmt.Sprintf(
			"%s does not show the call yet. Sent again with the same id after %s, it is run if it is not there then.",
			c.route.Verification.Tool, round(c.tooEarly)))
	}
	return res
}
