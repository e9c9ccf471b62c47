package schema

import (
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// finding is one thing that is wrong, at one place, before it is put into
// words.
type finding struct {
	at   location
	kind jsonschema.ErrorKind
	// schema is the one whose keyword failed; nil when it cannot be told.
	schema *jsonschema.Schema
	// name is the property at fault where at is its own place: missing, unknown
	// or misnamed.
	name string
	// values are the values that the alternatives of a union want here, where
	// each alternative wants one of its own.
	values []any
	// types are the types that the alternatives of a union want here.
	types []string
	// rename is the name that the unknown property at was meant to have.
	rename string
	// misnamed is the place of the unknown property that was meant to have this
	// missing name.
	misnamed location
	// moved is where the value will be once its property is renamed.
	moved location
}

// collector flattens the library's tree of errors.
type collector struct {
	*looks

	ix   *index
	args any
	// chosen are the branches of unions that the findings are about.
	chosen choices
	// from and to: the value judged is at from now, and the choices are for to,
	// where it belongs.
	from, to location
}

// maxOfOne bounds the findings of one keyword for one value: a list of all that is
// missing or unknown helps nobody.
const maxOfOne = 1000

// choose remembers a branch for the value at at.
func (c *collector) choose(branch *jsonschema.Schema, at location) {
	if c.to != nil {
		at = append(slices.Clone(c.to), at[len(c.from):]...)
	}
	c.chosen.add(branch, at)
}

func (c *collector) schemaOf(e *jsonschema.ValidationError) *jsonschema.Schema {
	return c.ix.byLocation[e.SchemaURL]
}

// findings lists what e complains of. at the base the locations of e begin.
func (c *collector) findings(e *jsonschema.ValidationError, base location) []finding {
	at := append(slices.Clone(base), e.InstanceLocation...)
	sch := c.schemaOf(e)
	one := finding{at: at, kind: e.ErrorKind, schema: sch}
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		if len(e.Causes) == 0 {
			return []finding{one}
		}
		var out []finding
		for _, cause := range e.Causes {
			out = append(out, c.findings(cause, base)...)
		}
		return out
	case *kind.AnyOf:
		return c.nearestBranch(e, one, base)
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return c.nearestBranch(e, one, base)
		}
	case *kind.Required:
		return one.perMember(k.Missing)
	case *kind.DependentRequired:
		return one.perMember(k.Missing)
	case *kind.Dependency:
		return one.perMember(k.Missing)
	case *kind.AdditionalProperties:
		return one.perMember(slices.Sorted(slices.Values(k.Properties)))
	case *kind.PropertyNames:
		return one.perMember([]string{k.Property})
	case *kind.FalseSchema:
		if len(at) > 0 {
			if parent, _ := at.parent().at(c.args); isObject(parent) {
				one.name = at.last()
			}
		}
	case *kind.MaxContains:
		one.at = at.child(strconv.Itoa(k.Got[len(k.Got)-1]))
	}
	return []finding{one}
}

// perMember makes one finding at the own place of each name.
func (f finding) perMember(list []string) []finding {
	list = list[:min(len(list), maxOfOne)]
	out := make([]finding, len(list))
	for i, name := range list {
		out[i] = f
		out[i].at = f.at.child(name)
		out[i].name = name
	}
	return out
}
