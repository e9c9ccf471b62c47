package failures

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// DefaultMaxChars is the cap of a block, in characters, and LeastMaxChars the
	// smallest there is: below it not even the error has room.
	DefaultMaxChars = 1500
	LeastMaxChars   = 200
	// MostMaxChars is the largest cap.
	MostMaxChars = 20_000
	// leftShare is the part of what is left in a prompt that a block may take: one
	// in so many.
	leftShare = 20
)

// Options make an Advisor. The zero value is ready for use.
type Options struct {
	// MaxChars is the cap of a block, in characters; 0: DefaultMaxChars.
	MaxChars int
	// Rules extend the catalogue; they come before what is built in.
	Rules []Rule
	// OfTools are rules for one tool each, by its name; they come before Rules.
	OfTools map[string][]Rule
}

// Advisor says what to do about failures. It is immutable and safe for concurrent
// use.
type Advisor struct {
	maxChars int
	rules    []compiled
	ofTools  map[string][]compiled
}

// New returns an advisor. Its errors are *FieldError, joined when there are several.
func New(opts Options) (*Advisor, error) {
	a := &Advisor{maxChars: cmp.Or(opts.MaxChars, DefaultMaxChars), ofTools: make(map[string][]compiled, len(opts.OfTools))}
	if a.maxChars < LeastMaxChars || a.maxChars > MostMaxChars {
		return nil, &FieldError{"max_chars", "must be from 200 to 20000"}
	}
	var c compiler
	a.rules = c.rules("rules", opts.Rules)
	for _, name := range slices.Sorted(maps.Keys(opts.OfTools)) {
		a.ofTools[name] = c.rules("tools."+name+".rules", opts.OfTools[name])
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	return a, nil
}

// Gone is a tool that a suggestion names, and that is not there.
type Gone struct {
	// Field is where the suggestion stands, such as rules[1].suggest[0], or
	// tools.get_order.rules[1].suggest[0] of Options.OfTools.
	Field string
	Tool  string
}

// Gone lists the tools that are named and not known, for a check of the config: as
// long as they are gone, the suggestions that name them are never made.
func (a *Advisor) Gone(known func(toolName string) bool) []Gone {
	var out []Gone
	all := slices.Clone(a.rules)
	for _, name := range slices.Sorted(maps.Keys(a.ofTools)) {
		all = append(all, a.ofTools[name]...)
	}
	for _, r := range all {
		for _, s := range r.suggest {
			for _, name := range s.tools {
				if !known(name) {
					out = append(out, Gone{s.field, name})
				}
			}
		}
	}
	return out
}

// Explain makes the block and the entries of a failure. The same failure gives the
// same advice.
func (a *Advisor) Explain(f *Failure) Advice {
	if !worthTelling(f.Code) {
		return Advice{}
	}
	p := pastOf(f)
	b := block{failure: f, past: p, most: a.most(f)}
	if b.outage = outage(f, p.recent); b.outage == "" {
		b.suggestions = a.suggestions(f, p)
		b.corrected = corrected(f, p)
	}
	text, shown := b.render()
	short := brief(f, shown)
	return Advice{
		Context: text, Entry: short.whole(f, p).encode(), Recent: short.encode(),
		Untrusted: text != "" && slices.ContainsFunc(p.earlier, func(e entry) bool { return e.untrusted }),
	}
}

// Foresee makes the entries of a call that is refused before its past is known: what
// it leaves in the logs is written in the step that reads them. Explain then makes
// its block, of the logs without these entries.
func (a *Advisor) Foresee(f *Failure) Advice {
	if !worthTelling(f.Code) {
		return Advice{}
	}
	alone := *f
	alone.Logs = Logs{}
	p := pastOf(&alone)
	e := brief(&alone, a.possible(&alone, p, maxShown))
	e.blind, e.number = true, 0
	return Advice{Entry: e.whole(&alone, p).encode(), Recent: e.encode()}
}

// most is the most characters that the block may have.
func (a *Advisor) most(f *Failure) int {
	most := a.maxChars
	if f.MaxChars > 0 {
		most = min(f.MaxChars, MostMaxChars)
	}
	if f.CharsLeft > 0 {
		return min(most, f.CharsLeft/leftShare)
	}
	return most
}

// brief is what will be known of a failure to all operations of the conversation.
func brief(f *Failure, shown []suggestion) *entry {
	e := &entry{operation: f.Operation, target: f.Target, code: f.Code, said: said{alike: alikeOf(f.Error)}, at: f.At.Unix(), number: 1}
	for _, s := range shown {
		e.shown = append(e.shown, s.id)
	}
	return e
}

// whole is what will be known of it to later attempts at the same.
func (e *entry) whole(f *Failure, p *past) *entry {
	out := *e
	out.message, out.untrusted = f.Error, f.Untrusted && f.Error != ""
	out.arguments, out.unread = p.now, f.Arguments == nil
	if n := len(p.earlier); n > 0 && !e.blind {
		out.number = p.earlier[n-1].number + 1
	}
	return &out
}

// corrected are the arguments to send instead, unless they were sent before.
func corrected(f *Failure, p *past) string {
	if f.Corrected == "" || f.MayHaveRun || f.Code.Class() == tool.Unknown {
		return ""
	}
	dec := json.NewDecoder(strings.NewReader(f.Corrected))
	dec.UseNumber()
	var args map[string]any
	if dec.Decode(&args) != nil {
		return ""
	}
	sent := summary(args)
	if slices.Equal(sent, p.now) || slices.ContainsFunc(p.earlier, func(e entry) bool { return !e.unread && slices.Equal(e.arguments, sent) }) {
		return ""
	}
	if oneLine(f.Corrected, len(f.Corrected)) != f.Corrected {
		return "" // what would break the block stays the program's alone
	}
	return f.Corrected
}
