package call

import (
	"context"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// arguments are what a call is called with.
type arguments struct {
	refs        *references      // what they refer to; nil for nothing
	values      map[string]any   // numbers as json.Number
	canonical   []byte           // in canonical form (RFC 8785)
	fingerprint [32]byte         // of the tool with them
	notes       []string         // what was changed in them
	effectKey   dedupe.EffectKey // what the call does, apart from its id
}

// checked is a call with arguments that its tool takes.
type checked struct {
	resolved
	arguments
}

// validate checks the arguments. A call that fails here has touched neither
// the store nor the backend.
func (r resolved) validate(ctx context.Context, refs *references) (c checked, refused *answer) {
	c.resolved = r
	violations, err := c.read(ctx, r, refs)
	switch {
	case err != nil:
		return c, r.result().Refused(r.notStarted(ctx), 0)
	case len(violations) > 0:
		return c, r.invalid(ctx, refs, violations)
	}
	if r.ValidateOnly {
		return c, r.result().Valid(r.route.Tool.Name, c.notes)
	}
	if c.canonical, err = schema.Canonical(c.values); err != nil {
		return c, r.result().NotValid([]tool.Error{explain.Unwritable(r.route.Tool.Name, err, r.Arguments)})
	}
	c.fingerprint = schema.Fingerprint(r.route.Tool.Name, c.canonical)
	if refs != nil {
		c.fingerprint = refs.fingerprint(r.route.Tool.Name, c.values)
	}
	r.now.Print, r.now.Checked = c.fingerprint, true
	refused = c.identify()
	return c, refused
}

// read reads the arguments of a call and says what is wrong with them. It fails when the
// caller has left before that is known.
func (a *arguments) read(ctx context.Context, r resolved, refs *references) ([]tool.Error, error) {
	if a.refs = refs; refs != nil && !refs.lost() {
		a.values = refs.resolved
	} else {
		values, violation := r.route.Schema.ParseArgs(r.Arguments)
		if violation != nil {
			return []tool.Error{*violation}, nil
		}
		a.values = values
	}
	a.known(r.call) // what is refused is logged with its shape too
	taken, notes, violations, err := r.route.Schema.CheckWithin(ctx, a.values, len(r.Arguments)+refs.size())
	if err != nil {
		return nil, err
	}
	a.notes, r.log.notes = notes, notes
	refs.conceal(violations, r.route)
	if len(violations) == 0 {
		a.values = taken
		a.known(r.call)
	}
	return violations, nil
}

// known says that a call has these arguments.
func (a *arguments) known(c *call) {
	if c.now.Args = a.values; !c.now.Refers { // else it is known what the model has written
		c.now.Written = a.values
	}
}

// identify finds out what the call does, apart from its id; it refuses one whose
// effect belongs to a conversation, and that names none.
func (c *checked) identify() *answer {
	rule := &c.route.Tool.Policy.EffectKey
	if len(rule.Args) == 0 || c.effect() == tool.ReadOnly {
		return nil
	}
	if !rule.WholeTenant && c.Key.Conversation == "" {
		return c.result().Refused(explain.EffectAdrift(c.route.Tool.Name), 0)
	}
	named := make(map[string]any, len(rule.Args))
	for _, name := range rule.Args {
		if value, given := c.values[name]; given {
			named[name] = value
		}
	}
	canonical, err := schema.Canonical(named)
	if err != nil { // the whole of them is written already
		canonical = c.canonical
	}
	c.effectKey = dedupe.EffectKey{
		Print:  schema.Fingerprint(c.route.Tool.Name, canonical),
		Window: rule.Window, WholeTenant: rule.WholeTenant, Allow: c.AllowDuplicateEffect,
	}
	c.now.Allowed = c.effectKey.Allow || c.Round.Further()
	return nil
}

// invalid answers arguments that break the schema, with what to send instead where
// that is certain. The words of a schema that an untrusted tool declares itself are its
// output: bounded as that is, and they enter the prompt.
func (r resolved) invalid(ctx context.Context, refs *references, violations []tool.Error) *answer {
	foreign := r.now.Args != nil && explain.ForeignSchema(&r.route.Tool)
	if foreign {
		violations = explain.ForeignWords(violations, r.outputLimit())
	}
	a := r.result().NotValid(violations)
	a.Foreign = foreign
	if refs == nil { // else it would tell what they stand for
		a.Suggest("", r.route.Schema.Suggest(ctx, r.now.Args, len(r.Arguments)))
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
