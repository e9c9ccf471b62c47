package timeline

import (
	"strings"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/tool"
)

// Fate is what became of an error.
type Fate uint8

// The fates.
const (
	// Recovered: the same tool worked later in the same prompt. For a tool that there is
	// not any tool that worked counts.
	Recovered Fate = iota + 1
	// GaveUp: the prompt ended without that.
	GaveUp
	// Open: it has not recovered yet, and the prompt is not known to be over.
	Open
)

// Failure is an error that a model was told.
type Failure struct {
	// Code is its code; empty for an error that does not have the five fields.
	Code tool.Code
	Fate Fate
	// Spun: the model was told the same of the same tool three times or more in the prompt,
	// or the loop guard refused it.
	Spun bool
	// Vague is why its text was of little help.
	Vague Vagueness
	Next  Next

	fields tool.Error
	told   string // what tells errors of a prompt apart
}

// Next is what a model did after an error.
type Next struct {
	// Text is what it said; empty for nothing.
	Text string
	// Tool is what it called: the same tool again if it did; empty for none.
	Tool string
	// Again: it made the same call again. Else Differences are those of the arguments, if
	// it called the same tool.
	Again       bool
	Differences []string
	// Nothing: it did nothing any more in this prompt, or has not yet.
	Nothing bool
}

// newFailure reads what a model was told.
func newFailure(text string) *Failure {
	e, ok := tool.ParseError(text)
	if !ok {
		return &Failure{told: text}
	}
	// A hint may say how long something took, and of which report it is.
	return &Failure{Code: e.Code, fields: e, told: strings.Join([]string{string(e.Code), e.Field, e.Constraint, e.Received}, "\x00")}
}

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
