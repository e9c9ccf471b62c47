package call

import (
	"context"

	"github.com/sidecall/sidecall/call/explain"
	"github.com/sidecall/sidecall/schema"
	"github.com/sidecall/sidecall/tool"
)

// invalid answers arguments that break the schema, with what to send instead where
// that is certain. The words of a schema that an untrusted tool declares itself are its
// output: bounded as that is, and they enter the prompt.
func (c *call) invalid(ctx context.Context, violations []tool.Error) *answer {
	foreign := c.args != nil && c.subject().ForeignSchema()
	if foreign {
		violations = explain.ForeignWords(violations, c.outputLimit())
	}
	a := c.result().NotValid(violations)
	a.Foreign = foreign
	if c.refs == nil { // else it would tell what they stand for
		a.Suggest("", c.route.Schema.Suggest(ctx, c.args, len(c.Arguments)))
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
