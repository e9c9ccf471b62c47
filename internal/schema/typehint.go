package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

func oneOrAll(list []string) any {
	if len(list) == 1 {
		return list[0]
	}
	return anys(list)
}

func (x *explainer) typeHint(f finding, k *kind.Type) string {
	want := slices.DeleteFunc(slices.Clone(x.wantedBy(f, k)), func(t string) bool { return t == "null" })
	if len(want) == 0 {
		want = []string{"null"}
	}
	for i, t := range want {
		want[i] = articled(t)
	}
	got, _ := x.value(f.at)
	what := fmt.Sprintf("Send %s as %s", x.subject(f), joinOr(want))
	switch got := got.(type) {
	case string:
		if v, fault := parseValue([]byte(got), true); fault == nil && (isObject(v) || isArray(v)) {
			what = fmt.Sprintf("Send %s as JSON, not as a string that contains it", x.subject(f))
		} else {
			what += ", not as a string"
		}
	case []any:
		what = fmt.Sprintf("Send one value for %s, %s, not an array", x.subject(f), joinOr(want))
	case nil:
		what += ", or leave it out if you may"
		if x.requires(f) {
			what = fmt.Sprintf("Send %s as %s, not null", x.subject(f), joinOr(want))
		}
	}
	return x.hint(f, what)
}

// enumText lists the allowed values; of a long list those nearest to the one
// received, and the first.
func (x *explainer) enumText(f finding, values []any) string {
	if len(values) > maxShortEnum {
		var near []any
		if got, ok := x.stringAt(f.at); ok {
			near = anys(x.nearest(got, stringsOf(values), 10))
		}
		values = append(near, values[:maxShortEnum-len(near)]...)
	}
	return compact(unique(values))
}

// stringAt is the string at l, unless it is secret.
func (x *explainer) stringAt(l location) (string, bool) {
	v, _ := x.value(l)
	s, ok := v.(string)
	return s, ok && !x.secrets.covers(l)
}

func (x *explainer) enumHint(f finding, values []any) string {
	what := "Set " + x.subject(f) + " to one of the " + strconv.Itoa(len(values)) + " allowed values"
	if got, ok := x.stringAt(f.at); ok && len(got) <= 200 {
		near := x.nearest(strings.TrimSpace(got), stringsOf(values), 3)
		if meant, ok := x.bestOf(f, x.schemasFor(f), anys(near)); ok {
			return didYouMean(meant.(string)) + " " + what + x.again()
		}
	}
	if len(values) == 1 {
		what = "Set " + x.subject(f) + " to its only allowed value"
	}
	for _, v := range values {
		if f.values != nil && x.fits(x.schemasFor(f), v) { // of a union: the chosen branch's own
			return what + exampleText(v) + x.again()
		}
	}
	return x.hint(f, what)
}
