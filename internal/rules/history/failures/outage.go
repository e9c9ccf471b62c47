package failures

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// outageWindow is how long ago a failure may be to count for an outage.
	outageWindow = 10 * time.Minute
	// outageOperations is how many operations have to fail alike.
	outageOperations = 3
	// namedOperations is how many of them are named.
	namedOperations = 5
)

// trouble is what many operations may have in common: codes that are one trouble,
// and what to do about it.
type trouble struct {
	codes  []tool.Code
	what   string
	advice string
}

var troubles = []trouble{
	{
		[]tool.Code{tool.CodeTimeout, tool.CodeDependencyUnavailable, tool.CodeCircuitOpen}, "cannot be reached or do not answer",
		"Wait some minutes before one more try, do what needs none of them, or tell the user.",
	},
	{
		[]tool.Code{tool.CodeRateLimited, tool.CodeOverloaded}, "take no more calls for now",
		"Wait, make fewer calls at the same time, or tell the user.",
	},
	{
		[]tool.Code{tool.CodeUnauthenticated}, "do not accept the credentials",
		"Tell the user that an operator has to see to the credentials.",
	},
	{
		[]tool.Code{tool.CodePermissionDenied}, "are forbidden",
		"Tell the user which permission is missing.",
	},
	{
		[]tool.Code{tool.CodeStoreUnavailable}, "cannot be recorded",
		"Wait some minutes before one more try, or tell the user.",
	},
	{
		[]tool.Code{tool.CodeInternal}, "end in a fault of the sidecar",
		"Tell the user.",
	},
}

// outage is the one line that stands for the block when the failures of this
// conversation have one cause that is not this call: at least three operations
// failed alike within minutes. Empty when they did not.
//
// Arguments that are wrong and things that are not found are never an outage: three
// tools called wrongly are three mistakes. Other definite failures are one when the
// tools say the same.
func outage(f *Failure, recent []entry) string {
	t, known := troubleOf(f.Code)
	if !known && (f.Code.Class() == tool.Malformed || f.Code == tool.CodeNotFound || f.Code == tool.CodeConflict) {
		return ""
	}
	same := alikeOf(f.Error)
	operations := []string{tool.ShortenBytes(f.Operation, maxOperation)}
	for _, e := range recent {
		age := f.At.Sub(e.time())
		alike := known && slices.Contains(t.codes, e.code) || !known && e.code == f.Code && e.alike == same
		if alike && age >= -outageWindow && age <= outageWindow && !slices.Contains(operations, e.operation) {
			operations = append(operations, e.operation)
		}
	}
	if len(operations) < outageOperations {
		return ""
	}
	if !known {
		t = trouble{what: "fail with the same error", advice: "Do not try variants of the call: find out what they have in common, or tell the user."}
	}
	if f.MayHaveRun {
		t.advice = "Find out what this one has done before anything else, or tell the user."
	}
	return fmt.Sprintf("Not this call alone: %d tools %s (%s, latest %s). Another form of the call will not help. %s",
		len(operations), t.what, named(operations), f.Code, t.advice)
}

func troubleOf(code tool.Code) (trouble, bool) {
	i := slices.IndexFunc(troubles, func(t trouble) bool { return slices.Contains(t.codes, code) })
	if i < 0 {
		return trouble{}, false
	}
	return troubles[i], true
}

// named lists operations, the latest first, which is the order of a model's interest.
func named(operations []string) string {
	first := operations[:1]
	others := slices.Clone(operations[1:])
	slices.Reverse(others)
	all := append(slices.Clone(first), others...)
	more := ""
	if len(all) > namedOperations {
		more = fmt.Sprintf(" and %d more", len(all)-namedOperations)
		all = all[:namedOperations]
	}
	for i, name := range all {
		all[i] = oneLine(name, maxOperation)
	}
	return strings.Join(all, ", ") + more
}

// alikeOf is the same for messages that differ in numbers, ids and case only.
func alikeOf(message string) uint32 {
	sum := uint32(0)
	for i, word := range strings.Fields(strings.ToLower(tool.Shorten(message, 400))) {
		if i == 40 {
			break
		}
		if !strings.ContainsFunc(word, unicode.IsDigit) {
			sum = sumOf(sum, word)
		}
	}
	return nonzero(sum)
}
