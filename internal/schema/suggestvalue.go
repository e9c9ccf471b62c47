package schema

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// meantValue is the one value that the value of f can have been meant to be.
func (x *examined) meantValue(f finding) (any, bool) {
	got, present := x.value(f.at)
	if !present {
		return nil, false
	}
	if v, ok := x.jsonWithin(f, got); ok {
		return v, true
	}
	list := x.schemasFor(f)
	for _, tier := range x.readings(f, got) {
		var fitting []any
		for _, v := range unique(tier) {
			if x.fits(list, v) {
				fitting = append(fitting, v)
			}
		}
		if len(fitting) > 0 {
			return fitting[0], len(fitting) == 1
		}
	}
	return nil, false
}

// jsonWithin is the object or array that was sent as text where one is expected.
// Whether it fits is seen when it is in its place.
func (x *examined) jsonWithin(f finding, got any) (any, bool) {
	k, ok := f.kind.(*kind.Type)
	text, isText := got.(string)
	if !ok || !isText {
		return nil, false
	}
	v, fault := parseValue([]byte(strings.TrimSpace(text)), true)
	return v, fault == nil && (isObject(v) || isArray(v)) && slices.Contains(x.wantedBy(f, k), typeName(v))
}

// readings lists what the value may have been meant to be, likeliest first; where
// two of one tier fit, nobody knows which.
func (x *examined) readings(f finding, got any) [][]any {
	switch k := f.kind.(type) {
	case *kind.Type:
		return typeReadings(got, x.wantedBy(f, k))
	case *kind.Enum, *kind.Const:
		return x.choiceReadings(got, f.fixedValues())
	case *kind.Format:
		if s, ok := got.(string); ok {
			return [][]any{{strings.TrimSpace(s)}, daysOf(k.Want, strings.TrimSpace(s))}
		}
	case *kind.Pattern:
		if s, ok := got.(string); ok {
			return [][]any{{strings.TrimSpace(s)}}
		}
	}
	return nil
}

// typeReadings are what a value of one type says in another: a number in digits,
// the one item of an array, the array of one item.
func typeReadings(got any, want []string) [][]any {
	if text, ok := got.(string); ok {
		got = strings.TrimSpace(text)
	}
	text, isText := got.(string)
	same := spellings(got, want)
	if arr, ok := got.([]any); ok && len(arr) == 1 {
		same = append(append(same, arr[0]), spellings(arr[0], want)...)
	}
	if isArray(got) || isText && strings.Contains(text, ",") || !slices.Contains(want, "array") {
		return [][]any{same}
	}
	wrapped := []any{[]any{got}}
	for _, v := range spellings(got, typeOrder) {
		wrapped = append(wrapped, []any{v})
	}
	return [][]any{append(same, wrapped[0]), wrapped[1:]}
}

// choiceReadings are those of the allowed values that a value spells: exactly,
// then in another case, with other separators, with a slip of the keys.
func (l *looks) choiceReadings(got any, values []any) [][]any {
	if !l.spend(int64(len(values))) {
		return nil
	}
	exact := fixedSpellings(got, values)
	if arr, ok := got.([]any); ok && len(arr) == 1 {
		return [][]any{{arr[0]}}
	}
	text, ok := got.(string)
	if !ok {
		return [][]any{exact}
	}
	text = strings.TrimSpace(text)
	var folded, separated, slipped []any
	spelt := newSpelling(text)
	for _, fixed := range stringsOf(values) {
		have := newSpelling(fixed)
		switch {
		case !l.compare(spelt, have):
			return nil
		case strings.EqualFold(text, fixed):
			folded = append(folded, fixed)
		case plainWord(text) == plainWord(fixed) && startsWithLetter(text) && startsWithLetter(fixed):
			separated = append(separated, fixed)
		case slips(spelt, have) && startsWithLetter(text) && sameSigns(text, fixed):
			slipped = append(slipped, fixed)
		}
	}
	return [][]any{exact, folded, separated, slipped}
}

// startsWithLetter keeps 1 from becoming -1.
func startsWithLetter(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLetter(r)
}

// sameSigns reports whether two texts have the same signs in the same order: C++
// is no slip for C#, nor >= for >.
func sameSigns(a, b string) bool {
	signs := func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsSpace(r) || r == '_' || r == '-' {
			return -1
		}
		return r
	}
	return strings.Map(signs, a) == strings.Map(signs, b)
}

// dayLayouts are ways to write a day that can be read in one way only: the year
// first, or the month by its name.
var dayLayouts = []string{
	"2006-1-2", "2006/1/2", "2006.1.2", "20060102",
	"January 2, 2006", "Jan 2, 2006", "January 2 2006", "Jan 2 2006", "2 January 2006", "2 Jan 2006",
}

// daysOf is a day as the format date has it.
func daysOf(format, text string) []any {
	if format != "date" || len(text) > 40 {
		return nil
	}
	for _, layout := range dayLayouts {
		if day, err := time.Parse(layout, text); err == nil {
			return []any{day.Format(time.DateOnly)}
		}
	}
	return nil
}
