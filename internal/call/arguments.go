package call

import (
	"context"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/identity"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// arguments are what a call is called with, as far as that is known.
type arguments struct {
	refs        *references      // what they refer to; nil for nothing
	values      map[string]any   // checked, numbers as json.Number; nil while they cannot be read
	canonical   []byte           // in canonical form (RFC 8785)
	fingerprint [32]byte         // of the tool with them
	notes       []string         // what was changed in them
	effect      dedupe.EffectKey // what the call does, apart from its id
}

// written are the arguments as the model knows them.
func (a *arguments) written() map[string]any {
	if a.refs != nil {
		return a.refs.sent
	}
	return a.values
}

// read are the arguments, with what they refer to.
func (a *arguments) read(route *catalog.Route, sent string) (map[string]any, *tool.Error) {
	if a.refs != nil && !a.refs.lost() {
		return a.refs.resolved, nil
	}
	return route.Schema.ParseArgs(sent)
}

// validate checks the arguments. A call that fails here has touched neither
// the store nor the backend.
func (c *call) validate(ctx context.Context) *answer {
	violations, err := c.violations(ctx)
	switch {
	case err != nil:
		return c.result().Refused(c.notStarted(ctx), 0)
	case len(violations) > 0:
		return c.invalid(ctx, violations)
	}
	if c.ValidateOnly {
		return c.result().Valid(c.route.Tool.Name, c.args.notes)
	}
	canonical, err := schema.Canonical(c.args.values)
	if err != nil {
		return c.result().NotValid([]tool.Error{c.subject().Unwritable(err, c.Arguments)})
	}
	c.args.canonical, c.args.fingerprint = canonical, schema.Fingerprint(c.route.Tool.Name, canonical)
	if c.args.refs != nil {
		c.args.fingerprint = c.args.refs.fingerprint(c.route.Tool.Name, c.args.values)
	}
	return c.identify()
}

// violations reads the arguments and says what is wrong with them. It fails when the
// caller has left before that is known.
func (c *call) violations(ctx context.Context) ([]tool.Error, error) {
	args, violation := c.args.read(c.route, c.Arguments)
	if violation != nil {
		return []tool.Error{*violation}, nil
	}
	c.args.values = args // what is refused is logged with its shape too
	checked, notes, violations, err := c.route.Schema.CheckWithin(ctx, args, len(c.Arguments)+c.args.refs.size())
	if err != nil {
		return nil, err
	}
	c.args.notes = notes
	c.args.refs.conceal(violations, c.route)
	if len(violations) == 0 {
		c.args.values = checked
	}
	return violations, nil
}

// identify finds out what the call does, apart from its id; it refuses one whose
// effect belongs to a conversation, and that names none.
func (c *call) identify() *answer {
	rule := &c.route.Tool.Policy.EffectKey
	if len(rule.Args) == 0 || c.effect() == tool.ReadOnly {
		return nil
	}
	if !rule.WholeTenant && c.Key.Conversation == "" {
		return c.result().Refused(explain.EffectAdrift(c.route.Tool.Name), 0)
	}
	named := make(map[string]any, len(rule.Args))
	for _, name := range rule.Args {
		if value, given := c.args.values[name]; given {
			named[name] = value
		}
	}
	canonical, err := schema.Canonical(named)
	if err != nil { // the whole of them is written already
		canonical = c.args.canonical
	}
	c.args.effect = dedupe.EffectKey{
		Print:  schema.Fingerprint(c.route.Tool.Name, canonical),
		Window: rule.Window, WholeTenant: rule.WholeTenant, Allow: c.AllowDuplicateEffect, Request: identity.RequestOf(c.Key.ID),
	}
	return nil
}

// invalid answers arguments that break the schema, with what to send instead where
// that is certain. The words of a schema that an untrusted tool declares itself are its
// output: bounded as that is, and they enter the prompt.
func (c *call) invalid(ctx context.Context, violations []tool.Error) *answer {
	foreign := c.args.values != nil && c.subject().ForeignSchema()
	if foreign {
		violations = explain.ForeignWords(violations, c.outputLimit())
	}
	a := c.result().NotValid(violations)
	a.Foreign = foreign
	if c.args.refs == nil { // else it would tell what they stand for
		a.Suggest("", c.route.Schema.Suggest(ctx, c.args.values, len(c.Arguments)))
	}
	return a
}

// unknownTool answers a name that no tool has. The same arguments under the name
// that was meant are suggested only where that is one tool and it has no effect:
// what the made-up name was to do nobody knows, so any effect would be a stronger
// one.
func (c *call) unknownTool(ctx context.Context, offered []schema.Offered) *answer {
	name := tool.Shorten(c.Tool, maxToolName)
	a := c.result().Refused(schema.UnknownTool(name, offered), 0)
	meant := schema.Meant(name, offered, 2)
	if len(meant) != 1 || len(c.Arguments) > schema.MaxSuggested {
		return a
	}
	route, ok := c.snapshot.Lookup(meant[0])
	if !ok || route.Tool.Effect != tool.ReadOnly || route.Refused != "" {
		return a
	}
	if args, violation := route.Schema.ParseArgs(c.Arguments); violation == nil {
		a.Suggest(meant[0], route.Schema.Suggest(ctx, args, len(c.Arguments)))
	}
	return a
}
