package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/sidecall/sidecall/internal/tool"
)

// maxAllowedNames bounds the list of names in a constraint.
const maxAllowedNames = 100

// unknownProperty words a property that may not be there.
func (x *explainer) unknownProperty(f finding) tool.Error {
	names := x.allowed(f)
	shownNames := names
	if len(names) > maxAllowedNames {
		shownNames = append(x.nearest(f.name, names, 20), names[:maxAllowedNames-20]...)
	}
	v := tool.Error{
		Code:       tool.CodeInvalidArgs,
		Field:      f.at.field(x.args),
		Constraint: "additionalProperties: " + compact(unique(anys(shownNames))),
		Received:   x.received(f.at),
	}
	name := quoted(tool.Shorten(f.name, 100))
	if f.rename != "" {
		v.Hint = didYouMean(f.rename) + " Rename " + name + " to " + quoted(f.rename) + x.again()
		return v
	}
	v.Hint = "Remove " + name + f.patternAdvice() + x.again()
	return v
}

// patternAdvice mentions names that are allowed by their form.
func (f finding) patternAdvice() string {
	if f.schema == nil || len(f.schema.PatternProperties) == 0 {
		return ""
	}
	var forms []string
	for re := range f.schema.PatternProperties {
		forms = append(forms, re.String())
	}
	slices.Sort(forms)
	return " or give it a name that matches " + strings.Join(forms[:min(3, len(forms))], " or ")
}

// missingProperty words a property that must be there.
func (x *explainer) missingProperty(f finding) tool.Error {
	list := x.schemasAt(f.at)
	secret := x.secrets.has(f.name)
	short := shortener{looks: x.looks, ix: x.ix, secret: secret}
	v := tool.Error{
		Code:       tool.CodeInvalidArgs,
		Field:      f.at.field(x.args),
		Constraint: "required: " + short.text(list),
		Received:   tool.ReceivedMissing,
	}
	name := quoted(tool.Shorten(f.name, 100))
	if f.misnamed != nil {
		v.Hint = didYouMean(f.name) + " Rename " + quoted(tool.Shorten(f.misnamed.last(), 100)) + " to " + name + x.again()
		return v
	}
	example := ""
	if f.values != nil {
		v.Constraint = "required: " + compact(map[string]any{"enum": f.values[:min(len(f.values), maxShortEnum)]})
		example = exampleText(f.values[0])
	} else if made, ok := (&maker{looks: x.looks, ix: x.ix, budget: makerBudget, secret: secret}).make(list, 0); ok {
		example = exampleText(made)
	}
	what := "Add " + name
	if k, ok := f.kind.(*kind.DependentRequired); ok {
		what += ", which goes with " + quoted(k.Prop)
	}
	v.Hint = what + example + short.describe(list) + x.again()
	return v
}

// badName words a property whose name has not the form that names must have.
func (x *explainer) badName(f finding) tool.Error {
	rule := namesOf(f.schema)
	v := tool.Error{
		Code:       tool.CodeInvalidArgs,
		Field:      f.at.field(x.args),
		Constraint: "propertyNames: " + x.short.text(x.expand(nil, rule)),
		Received:   shown(f.name, nil),
	}
	list := nodes{looks: x.looks}.expand(nil, rule, apparent{value: f.name, present: true})
	obj, _ := x.value(f.at.parent())
	m := &maker{looks: x.looks, ix: x.ix, budget: makerBudget}
	candidates := append(derived(f.name, list, m), anys(x.nearest(f.name, stringsOf(m.given(list)), 1))...)
	candidates = append(candidates, m.strings(list)...)
	for _, c := range candidates {
		name, ok := c.(string)
		if _, taken := (location{name}).at(obj); ok && name != "" && !taken && x.fits(list, name) {
			v.Hint = didYouMean(name) + " Rename " + quoted(tool.Shorten(f.name, 100)) + " to " + quoted(name) + x.again()
			return v
		}
	}
	v.Hint = "Rename or remove " + quoted(tool.Shorten(f.name, 100)) + x.again()
	return v
}

// oneOfHint: of two sets of members that exclude each other, one has to go.
func (x *explainer) oneOfHint(f finding, fitting []int) string {
	got, _ := x.value(f.at)
	obj, ok := got.(map[string]any)
	if !ok || f.schema == nil || x.secrets.within(got) {
		return x.hint(f, "Change "+x.subject(f)+" so that it fits exactly one of the listed schemas")
	}
	keep := x.required(f.schema.OneOf[fitting[0]])
	var drop []string
	for _, name := range x.required(f.schema.OneOf[fitting[1]]) {
		if !slices.Contains(keep, name) {
			drop = append(drop, name)
		}
	}
	if len(drop) == 0 {
		return x.hint(f, "Change "+x.subject(f)+" so that it fits exactly one of the listed schemas")
	}
	what := fmt.Sprintf("Send either %s or %s, not both", quotedList(keep), quotedList(drop))
	slimmer := map[string]any{}
	for name, v := range obj {
		if !slices.Contains(drop, name) {
			slimmer[name] = v
		}
	}
	if x.fits(x.schemasFor(f), slimmer) {
		return what + exampleText(slimmer) + x.again()
	}
	return what + x.again()
}

func quotedList(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = quoted(s)
	}
	return strings.Join(out, " and ")
}

// forbidden words a value that no schema allows at all.
func (x *explainer) forbidden(f finding) (constraint, hint string) {
	if len(f.at) == 0 {
		return "these arguments are not allowed in this combination", "Change the arguments" + x.again()
	}
	array := f.at.parent()
	n, _ := strconv.Atoi(f.at.last()) // an index, as it is not a member
	return "maxItems: " + strconv.Itoa(n), fmt.Sprintf("Send at most %d items in %s%s", n, x.subject(finding{at: array}), x.again())
}
