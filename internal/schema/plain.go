package schema

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/sidecall/sidecall/internal/tool"
)

// plain words the findings whose constraint is the keyword and its value as
// they stand in the schema.
func (x *explainer) plain(f finding) (constraint, hint string) {
	subject := x.subject(f)
	switch k := f.kind.(type) {
	case *kind.Format:
		return "format: " + compact(k.Want), x.formatHint(f, k.Want)
	case *kind.Pattern:
		return "pattern: " + compact(k.Want), x.hint(f, "Send "+subject+" in the form that the pattern describes")
	case *kind.Minimum:
		return x.bound(f, "minimum", k.Want, "Set %s to at least %s")
	case *kind.Maximum:
		return x.bound(f, "maximum", k.Want, "Set %s to at most %s")
	case *kind.ExclusiveMinimum:
		return x.bound(f, "exclusiveMinimum", k.Want, "Set %s to more than %s")
	case *kind.ExclusiveMaximum:
		return x.bound(f, "exclusiveMaximum", k.Want, "Set %s to less than %s")
	case *kind.MultipleOf:
		return x.bound(f, "multipleOf", k.Want, "Set %s to a multiple of %s")
	case *kind.MinLength:
		return x.size(f, "minLength", k.Want, "Send %s with at least %d characters")
	case *kind.MaxLength:
		return x.size(f, "maxLength", k.Want, "Shorten %s to at most %d characters")
	case *kind.MinItems:
		return x.size(f, "minItems", k.Want, "Send %s with at least %d items")
	case *kind.MaxItems:
		return x.size(f, "maxItems", k.Want, "Send %s with at most %d items")
	case *kind.MinProperties:
		return x.size(f, "minProperties", k.Want, "Send %s with at least %d properties")
	case *kind.MaxProperties:
		return x.size(f, "maxProperties", k.Want, "Send %s with at most %d properties")
	case *kind.UniqueItems:
		repeated := fmt.Sprintf("Remove the repeated items of %s: item %d equals item %d", subject, k.Duplicates[1], k.Duplicates[0])
		return "uniqueItems: true", x.hint(f, repeated)
	case *kind.Contains:
		return "contains: " + x.short.contained(f.schema), x.hint(f, "Add an item to "+subject+" that fits the schema under contains")
	case *kind.MinContains:
		return x.size(f, "minContains", k.Want, "Send %s with at least %d items that fit the schema under contains")
	case *kind.MaxContains:
		return fmt.Sprintf("maxContains: %d", k.Want), fmt.Sprintf("Remove %s%s", subject, x.again())
	case *kind.AdditionalItems:
		value, _ := x.value(f.at)
		arr, _ := value.([]any)
		return x.size(f, "maxItems", len(arr)-k.Count, "Send %s with at most %d items")
	default:
		return sentence(f.kind), x.hint(f, "Correct "+subject)
	}
}

// bound words a limit of a number.
func (x *explainer) bound(f finding, keyword string, want *big.Rat, what string) (constraint, hint string) {
	limit := compact(x.keyword(f.schema, keyword, toNumber(want)))
	return keyword + ": " + limit, x.hint(f, fmt.Sprintf(what, x.subject(f), limit))
}

// size words a limit of a length or count.
func (x *explainer) size(f finding, keyword string, want int, what string) (constraint, hint string) {
	return fmt.Sprintf("%s: %d", keyword, want), x.hint(f, fmt.Sprintf(what, x.subject(f), want))
}

func (x *explainer) formatHint(f finding, name string) string {
	what := "Send " + x.subject(f) + " in the format " + name
	if shape := formatOf[name].shape; shape != "" {
		what += " (" + shape + ")"
	}
	return x.hint(f, what)
}

// sentence is the library's own sentence, for what no keyword names.
func sentence(k jsonschema.ErrorKind) string {
	return tool.Shorten(strings.ReplaceAll(k.LocalizedString(printer), "'", ""), 200)
}
