package schema

import (
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// explainer words the findings of one call.
type explainer struct {
	*looks

	s *Schema
	// given are the arguments as received; args those that were judged, nulls
	// dropped and spellings coerced. Places are the same in both.
	given, args any
	nodes       nodes
	ix          *index
	secrets     *sensitiveness
}

func (s *Schema) examine(given, args map[string]any, verdict *jsonschema.ValidationError, l *looks) (*explainer, []finding) {
	c := &collector{looks: l, ix: s.index(), args: args, chosen: choices{}}
	findings := c.findings(verdict, nil)
	return &explainer{
		looks: l, s: s, given: given, args: args, ix: c.ix,
		nodes:   nodes{chosen: c.chosen, fitting: map[choice]bool{}, looks: l},
		secrets: s.sensitive(),
	}, findings
}

// schemasAt lists what applies at l.
func (x *explainer) schemasAt(l location) []*jsonschema.Schema {
	return x.nodes.at(x.s.root(), x.args, l)
}

func (x *explainer) value(l location) (any, bool) { return l.at(x.args) }

// known lists the properties that any schema at l describes.
func (x *explainer) known(l location) []string {
	names := map[string]bool{}
	for _, s := range x.schemasAt(l) {
		for name, p := range s.Properties {
			if p.Bool == nil || *p.Bool {
				names[name] = true
			}
		}
	}
	return sortedNames(names)
}

// allowed lists the names that may stand where the unknown property f stands.
func (x *explainer) allowed(f finding) []string {
	if _, closed := f.kind.(*kind.AdditionalProperties); !closed || f.schema == nil {
		return slices.DeleteFunc(x.known(f.at.parent()), func(n string) bool { return n == f.name })
	}
	names := map[string]bool{}
	for name, p := range f.schema.Properties {
		if p.Bool == nil || *p.Bool {
			names[name] = true
		}
	}
	return sortedNames(names)
}
