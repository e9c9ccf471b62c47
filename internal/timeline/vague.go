package timeline

import (
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/tool"
)

// Vagueness is why a text was of little help to a model, as far as a program can tell.
type Vagueness uint8

// The reasons.
const (
	Formless      Vagueness = 1 << iota // it has none of the five fields
	Meaningless                         // its code says only that the call failed
	Fieldless                           // it names no field
	Unconstrained                       // it names no constraint
	Hintless                            // it does not say what to do next
	Short                               // it is short
	Repeated                            // the model made the same call again
)

// shortText is how few characters are short, without the code and the field.
const shortText = 40

var reasons = []struct {
	is   Vagueness
	says string
}{
	{Formless, "it is plain text: no code, field, constraint or hint"},
	{Meaningless, "its code says only that the call failed"},
	{Fieldless, "it names no field"},
	{Unconstrained, "it names no constraint"},
	{Hintless, "it has no hint of what to do next"},
	{Short, "it has less than 40 characters"},
	{Repeated, "the model made the same call again after it"},
}

// Reasons are those of a text in words.
func (v Vagueness) Reasons() (all []string) {
	for _, r := range reasons {
		if v&r.is != 0 {
			all = append(all, r.says)
		}
	}
	return all
}

// vagueness says why an error was of little help.
func vagueness(text string, f *Failure) (v Vagueness) {
	set := func(is Vagueness, when bool) {
		if when {
			v |= is
		}
	}
	set(Repeated, f.Next.Again)
	if f.Code == "" {
		set(Formless, true)
		set(Short, utf8.RuneCountInString(text) < shortText)
		return v
	}
	e := f.fields
	set(Meaningless, e.Code == tool.CodeUnrecoverable || e.Code == tool.CodeInternal)
	set(Fieldless, e.Field == "" && isOfArgument(e.Code))
	set(Unconstrained, e.Constraint == "")
	set(Hintless, e.Hint == "")
	set(Short, utf8.RuneCountInString(e.Constraint+e.Received+e.Hint) < shortText)
	return v
}

// isOfArgument reports that an error of the code is about an argument, which it should name.
func isOfArgument(code tool.Code) bool {
	switch code {
	case tool.CodeInvalidArgs, tool.CodeNotFound, tool.CodeBusinessRule, tool.CodeConflict, tool.CodeUnrecoverable:
		return true
	}
	return false
}
