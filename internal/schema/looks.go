package schema

import (
	"context"
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sidecall/sidecall/internal/pattern"
)

// maxLooks bounds what it may take to say what is wrong with arguments, all looks
// at schemas and values together: as much as four checks.
const maxLooks = 4 * maxWork

// looks are what is left of maxLooks for one call. When none are left nothing more
// is found out: violations are told with shorter schemas and without examples.
type looks struct {
	checker checker
	meter   *pattern.Meter
}

// look returns the looks at arguments, for as long as ctx lasts.
func (c checker) look(ctx context.Context) *looks {
	return &looks{c, pattern.NewMeter(ctx, maxLooks)}
}

func (l *looks) spend(n int64) bool { return l.meter.Spend(n) }

// compare pays for a comparison of two names.
func (l *looks) compare(a, b spelling) bool {
	return l.spend(1 + int64(cells(a.plain, b.plain)/512))
}

// ended is the cause of the end of the caller, where the looks ended with it.
func (l *looks) ended() error {
	if err := l.meter.Err(); !errors.Is(err, pattern.ErrTooCostly) {
		return err
	}
	return nil
}

var errTooMuch = errors.New("it is too much work to be found out")

// judge is the library's verdict on v, or errTooMuch.
func (l *looks) judge(s *jsonschema.Schema, v any) error {
	if work := l.checker.work(s, v, sizeOf(v)); work > maxWork || !l.spend(work) {
		return errTooMuch
	}
	return s.Validate(v)
}

// suits reports whether v satisfies s.
func (l *looks) suits(s *jsonschema.Schema, v any) bool { return l.judge(s, v) == nil }

// fits reports whether v satisfies all of list.
func (l *looks) fits(list []*jsonschema.Schema, v any) bool {
	for _, s := range list {
		if !l.suits(s, v) {
			return false
		}
	}
	return true
}

// expand adds s and all that it applies in place to list, whatever the value.
func (l *looks) expand(list []*jsonschema.Schema, s *jsonschema.Schema) []*jsonschema.Schema {
	return nodes{looks: l}.expand(list, s, apparent{})
}

// memberSchemas lists what list applies to a member of that name.
func (l *looks) memberSchemas(list []*jsonschema.Schema, name string) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	for _, s := range list {
		for _, to := range steps(s, name, map[string]any(nil)) {
			out = l.expand(out, to)
		}
	}
	return out
}

// required are the names that s requires, and all that it applies in place.
func (l *looks) required(s *jsonschema.Schema) []string {
	var out []string
	for _, one := range l.expand(nil, s) {
		out = append(out, one.Required...)
	}
	return out
}
