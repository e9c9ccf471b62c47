package failures

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/sidecall/sidecall/internal/pattern"
	"github.com/sidecall/sidecall/internal/tool"
)

// Rule is a part of the catalogue of suggestions: for which failures it is meant,
// and what to suggest then. What a rule does not name, it does not ask for.
type Rule struct {
	// Codes of the failures it is for.
	Codes []tool.Code
	// Pattern is an RE2 expression that matches somewhere in the error.
	Pattern string
	// Tools are glob patterns (* and ?) of the names of the tools it is for.
	Tools []string
	// Suggest are sentences for the model, the best first. A tool that one of them
	// names stands in braces ({list_files}); the sentence is left out where that tool
	// cannot be called.
	Suggest []string
	// Tried says how it shows that a suggestion was followed.
	Tried Tried
	// Only: where the rule matches, nothing that is built in and comes after it is
	// suggested besides.
	Only bool

	// says are the signs of a rule that is built in, see sign; it has no pattern.
	says string
}

// Tried says by which signs a suggestion was followed already, and in vain: then
// it is not made again. Whatever it says, one that was made twice and did not help
// is not made a third time, nor one whose tool has failed at the same target.
type Tried string

const (
	// TriedUnknown: by no other sign.
	TriedUnknown Tried = ""
	// TriedChanged: an earlier attempt that failed with the same code had other
	// arguments.
	TriedChanged Tried = "changed"
	// TriedSmaller: an earlier attempt had a larger number among its arguments.
	TriedSmaller Tried = "smaller"
	// TriedWaited: the attempt before this one was a minute ago, or longer.
	TriedWaited Tried = "waited"
	// TriedRepeated: an earlier attempt had the same arguments.
	TriedRepeated Tried = "repeated"
)

// Bounds of a catalogue.
const (
	maxRules       = 200 // of all tools, and of each
	maxSuggestions = 8   // of one rule
	// MaxSuggestionChars bounds one suggestion.
	MaxSuggestionChars = 300
	// maxInstructions bounds the patterns of all rules together.
	maxInstructions = 200_000
	// maxMatched is how much of an error patterns look at, in characters.
	maxMatched = 600
)

// FieldError says what is wrong with one field of what an Advisor or a Targeting is
// made of.
type FieldError struct {
	// Field is the path of the field, such as rules[2].pattern.
	Field  string
	Reason string
}

// Error is the field and the reason.
func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// compiled is a rule ready for use.
type compiled struct {
	codes   []tool.Code
	pattern *pattern.Pattern // nil: any error
	signs   []sign           // of what is built in, instead of a pattern; nil: any error
	tools   []string
	suggest []suggestion
	only    bool
}

// suggestion is one sentence.
type suggestion struct {
	text  string
	tools []string // that it names
	id    uint32
	tried Tried
	field string // where it stands, for Gone
}

// compiler reads rules. It reports all errors at once, each a *FieldError.
type compiler struct {
	errs []error
	size int // of all patterns
}

func (c *compiler) fail(field, reason string) { c.errs = append(c.errs, &FieldError{field, reason}) }

func (c *compiler) err() error { return errors.Join(c.errs...) }

// rules reads a list of them that stands at a place, such as rules.
func (c *compiler) rules(list string, rules []Rule) []compiled {
	if len(rules) > maxRules {
		c.fail(list, fmt.Sprintf("at most %d rules can be used", maxRules))
		return nil
	}
	out := make([]compiled, len(rules))
	for i, r := range rules {
		place := fmt.Sprintf("%s[%d]", list, i)
		out[i] = r.compile(place, func(field, reason string) { c.fail(place+"."+field, reason) })
		if p := out[i].pattern; p != nil {
			if c.size += p.Size(); c.size > maxInstructions {
				c.fail(place+".pattern", fmt.Sprintf("with those before it, it has more than %d instructions", maxInstructions))
				break
			}
		}
	}
	return out
}

func (r Rule) compile(place string, fail func(field, reason string)) compiled {
	c := compiled{codes: r.Codes, tools: r.Tools, only: r.Only, signs: signsOf(r.says)}
	for i, code := range r.Codes {
		if !code.Valid() {
			fail(fmt.Sprintf("codes[%d]", i), fmt.Sprintf("there is no code %q", code))
		}
	}
	if r.Pattern != "" {
		p, err := pattern.Compile(r.Pattern)
		if err != nil {
			fail("pattern", fmt.Sprintf("the expression %s cannot be used: %v", tool.Quote(r.Pattern), err))
		}
		c.pattern = p
	}
	for i, glob := range r.Tools {
		if _, err := path.Match(glob, ""); err != nil || glob == "" {
			fail(fmt.Sprintf("tools[%d]", i), fmt.Sprintf("must be a name of tools, with * and ? for what differs; it is %q", glob))
		}
	}
	if !slices.Contains([]Tried{TriedUnknown, TriedChanged, TriedSmaller, TriedWaited, TriedRepeated}, r.Tried) {
		fail("tried", fmt.Sprintf("must be changed, smaller, waited or repeated; it is %q", r.Tried))
	}
	if len(r.Suggest) == 0 && !r.Only {
		fail("suggest", "a suggestion is missing")
	}
	if len(r.Suggest) > maxSuggestions {
		fail("suggest", fmt.Sprintf("a rule has at most %d suggestions", maxSuggestions))
	}
	for i, text := range r.Suggest {
		field := fmt.Sprintf("suggest[%d]", i)
		s, reason := newSuggestion(text, r.Tried)
		if reason != "" {
			fail(field, reason)
		}
		s.field = place + "." + field
		c.suggest = append(c.suggest, s)
	}
	return c
}

// newSuggestion reads a sentence with the names of tools in braces.
func newSuggestion(text string, tried Tried) (s suggestion, reason string) {
	switch {
	case strings.TrimSpace(text) == "":
		return s, "must be a sentence"
	case len(text) > MaxSuggestionChars && tool.Shorten(text, MaxSuggestionChars) != text:
		return s, fmt.Sprintf("must have at most %d characters", MaxSuggestionChars)
	case strings.ContainsFunc(text, unicode.IsControl):
		return s, "must be one line"
	}
	s = suggestion{id: nonzero(sumOf(0, text)), tried: tried}
	for text != "" {
		before, after, opened := strings.Cut(text, "{")
		if strings.Contains(before, "}") {
			return s, "has a } without a {"
		}
		s.text += before
		if !opened {
			break
		}
		name, rest, closed := strings.Cut(after, "}")
		if !closed || name == "" || strings.ContainsAny(name, "{ ") {
			return s, "must name a tool between { and }"
		}
		s.text += name
		s.tools = append(s.tools, name)
		text = rest
	}
	return s, ""
}

// matches reports whether a rule is meant for a failure. said is its error in lower
// case.
func (c *compiled) matches(f *Failure, m *pattern.Meter, said string) bool {
	// What may have happened must not be done anew, so what is suggested of errors in
	// general is not suggested of it.
	if unknown := f.MayHaveRun || f.Code.Class() == tool.Unknown; unknown && !slices.Contains(c.codes, tool.CodeOutcomeUnknown) {
		return false
	} else if !unknown && len(c.codes) > 0 && !slices.Contains(c.codes, f.Code) {
		return false
	}
	if len(c.tools) > 0 && !slices.ContainsFunc(c.tools, func(glob string) bool { return fitsGlob(glob, f.Operation) }) {
		return false
	}
	if c.signs != nil && !slices.ContainsFunc(c.signs, func(s sign) bool { return s.in(said) }) {
		return false
	}
	return c.pattern == nil || c.pattern.Match(m, tool.Shorten(f.Error, maxMatched))
}

func fitsGlob(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return ok && err == nil
}
