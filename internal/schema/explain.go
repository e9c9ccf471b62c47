package schema

import (
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// maxViolations is how many violations one answer lists.
	maxViolations = 10
	// maxConsidered is how many findings are looked at closely for them. Where
	// there are more they are all of a kind.
	maxConsidered = 100
)

// explainer words the findings of one call.
type explainer struct {
	*examined

	name  string // of the tool
	given any    // the arguments as received: nulls not dropped, nor spellings coerced
	// secrets are those of the arguments, and short writes schemas without them.
	secrets *sensitiveness
	short   shortener
}

// explain turns the library's verdict on args into violations.
func (t trial) explain(given, args map[string]any, verdict *jsonschema.ValidationError) []tool.Error {
	at, findings := t.examine(args, verdict)
	x := explainer{at, t.name, given, t.sensitive(), shortener{looks: t.looks, ix: at.ix}}
	if len(findings) > maxConsidered {
		slices.SortStableFunc(findings, compareFindings)
		findings = findings[:maxConsidered]
	}
	findings = (&renamer{at, map[string]bool{}}).join(findings)
	findings = shortestArrays(findings)
	slices.SortStableFunc(findings, compareFindings)
	var out []tool.Error
	type key struct{ field, constraint string }
	seen := map[key]bool{}
	for _, f := range findings {
		v := x.violation(f)
		if k := (key{v.Field, v.Constraint}); !seen[k] {
			seen[k] = true
			out = append(out, v)
		}
		if len(out) == maxViolations {
			break
		}
	}
	return out
}
