package schema

import (
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/sidecall/sidecall/internal/tool"
)

// violation puts one finding into the five fields.
func (x *explainer) violation(f finding) tool.Error {
	if f.unknown() {
		return x.unknownProperty(f)
	}
	if f.missing() {
		return x.missingProperty(f)
	}
	v := tool.Error{Code: tool.CodeInvalidArgs, Field: f.at.field(x.args), Received: x.received(f.at)}
	switch k := f.kind.(type) {
	case *kind.PropertyNames:
		return x.badName(f)
	case *kind.Type:
		v.Constraint = "type: " + compact(oneOrAll(x.wantedBy(f, k)))
		v.Hint = x.typeHint(f, k)
	case *kind.Enum:
		v.Constraint = "enum: " + x.enumText(f, k.Want)
		v.Hint = x.enumHint(f, k.Want)
	case *kind.Const:
		v.Constraint = "const: " + compact(k.Want)
		v.Hint = x.hint(f, "Set "+x.subject(f)+" to its only allowed value")
	case *kind.OneOf:
		v.Constraint = "oneOf: " + x.short.branches(f.schema, k.Subschemas)
		v.Hint = x.oneOfHint(f, k.Subschemas)
	case *kind.Not:
		v.Constraint = "not: " + x.short.negated(f.schema)
		v.Hint = x.hint(f, "Change "+x.subject(f)+" so that it does not fit the schema under not")
	case *kind.FalseSchema:
		v.Constraint, v.Hint = x.forbidden(f)
		if len(f.at) > 0 {
			array := f.at.parent()
			v.Field, v.Received = array.field(x.args), x.received(array)
		}
	default:
		v.Constraint, v.Hint = x.plain(f)
	}
	return v
}
