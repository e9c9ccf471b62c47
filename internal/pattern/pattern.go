// Package pattern is the one room in which regular expressions are compiled and
// matched that somebody else wrote, or against text that somebody else wrote:
// those of schemas, the format regex, those of CEL, those of read_output.
//
// Go matches in time linear in the text, but linear with a factor that the
// expression chooses, without a look at the clock, and after a compilation that
// multiplies nested repetitions out. A few dozen bytes can stand for gigabytes,
// and a megabyte of text keep a core for minutes. So here
//
//   - what an expression would compile to is counted before it is (Size), and
//     bounded: by MaxInstructions for one, and by who reads many for those of one
//     origin. It is compiled when it is first matched;
//   - matching takes steps that are counted (Meter), each about as long as any
//     other, and ends when they are used up or the caller has left.
//
// What matches is what Go's package regexp says: the machine in machine.go runs
// the same programs, and a fuzz target compares the two.
package pattern

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"sync"
)

const (
	// MaxLength bounds an expression, in bytes. Models send expressions too,
	// where format is regex.
	MaxLength = 16 << 10
	// MaxInstructions bounds what one expression compiles to. It has room for the
	// longest repetition that is taken at all, 20,000 times, of a character or
	// two; an instruction takes some 40 bytes.
	MaxInstructions = 100_000
	// StepsToRead is what it takes to read one byte of an expression, in the steps
	// of a Meter. Whoever reads one that was just sent spends them.
	StepsToRead = 64
)

// Pattern is a compiled expression. It is immutable and safe for concurrent use.
type Pattern struct {
	source string
	size   int
	body   part
	ahead  []part // must match too
	never  []part // must not match
}

// part is one expression in Go's syntax, in the two forms that match it, each of
// which is made when it is first needed.
type part struct {
	text    string
	size    int
	re      func() *regexp.Regexp
	machine func() *machine
}

// Compile reads an expression in Go's own syntax (RE2). The error is one clause.
func Compile(source string) (*Pattern, error) {
	body, err := newPart(source)
	if err != nil {
		return nil, err
	}
	return &Pattern{source: source, size: body.size, body: body}, nil
}

// String is the source, as it was written.
func (p *Pattern) String() string { return p.source }

// Size is how many instructions the pattern has.
func (p *Pattern) Size() int { return p.size }

// MatchString reports whether the pattern matches in s, whatever that takes: at
// most Size times the length of s. Who does not know both asks Match.
func (p *Pattern) MatchString(s string) bool {
	for _, never := range p.never {
		if never.re().MatchString(s) {
			return false
		}
	}
	for _, ahead := range p.ahead {
		if !ahead.re().MatchString(s) {
			return false
		}
	}
	return p.body.re().MatchString(s)
}

// Match is MatchString for as long as the meter runs; false when it has
// stopped, which its Err tells.
func (p *Pattern) Match(m *Meter, s string) bool {
	for _, never := range p.never {
		if never.machine().search(m, s, false) >= 0 {
			return false
		}
	}
	for _, ahead := range p.ahead {
		if ahead.machine().search(m, s, false) < 0 {
			return false
		}
	}
	return p.body.machine().search(m, s, false) >= 0
}

// Find returns the index at which the leftmost match in s begins; -1 when there
// is none, or the meter has stopped.
func (p *Pattern) Find(m *Meter, s string) int {
	return p.body.machine().search(m, s, true)
}

// newPart reads one expression: it counts what it would compile to, and compiles
// nothing. The error says why it cannot be used.
func newPart(text string) (part, error) {
	if err := bounded(text); err != nil {
		return part{}, err
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return part{}, reason(err)
	}
	size := instructions(tree)
	if size > MaxInstructions {
		return part{}, tooLarge()
	}
	return part{
		text: text, size: size,
		re:      sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) }), // what parses compiles
		machine: sync.OnceValue(func() *machine { return newMachine(text) }),
	}, nil
}

// reason is the parser's complaint without its preface.
func reason(err error) error {
	if wrong, ok := errors.AsType[*syntax.Error](err); ok {
		return fmt.Errorf("%s: `%s`", wrong.Code, wrong.Expr)
	}
	return err
}

func tooLarge() error {
	return fmt.Errorf("its repetitions multiply to more than %d instructions", MaxInstructions)
}
