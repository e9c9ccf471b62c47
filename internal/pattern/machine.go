package pattern

import (
	"regexp/syntax"
	"strings"
	"sync"
	"unicode/utf8"
)

// machine runs a compiled expression over a text, all alternatives at once (Pike's
// machine). It exists beside Go's own because it can be stopped, and tells what it
// takes: a long text and a large expression are often little work together, which
// their product does not show. It is safe for concurrent use.
type machine struct {
	prog   *syntax.Prog
	prefix string // every match begins with it
	fixed  bool   // matches begin at the beginning of the text only

	runs sync.Pool // of *run: what a search needs is large for a large program
}

// newMachine compiles what was parsed before, as regexp.MustCompile does: one that
// could not be compiled and matched nothing would let pass what must not match.
func newMachine(text string) *machine {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		panic(err)
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		panic(err)
	}
	m := &machine{prog: prog, fixed: prog.StartCond()&syntax.EmptyBeginText != 0}
	m.prefix, _ = prog.Prefix()
	m.runs.New = func() any { return &run{machine: m, seen: make([]int64, len(prog.Inst))} }
	return m
}

// run is one search.
type run struct {
	*machine

	now, next []thread // in the order of where they began
	seen      []int64  // for each instruction the last round that came to it
	round     int64    // one for each character of all texts
	steps     int64    // of this round
}

// thread is an instruction at which the machine stands, and the index at which its
// match began.
type thread struct{ pc, start uint32 }

// search returns where a match begins: the leftmost, or else the first that is found.
// It is -1 when there is none or the meter has stopped.
func (m *machine) search(meter *Meter, s string, leftmost bool) int {
	if !meter.Spend(1) {
		return -1
	}
	r, _ := m.runs.Get().(*run) // the pool makes no others
	defer m.runs.Put(r)
	r.now, r.steps = r.now[:0], 0
	found, before := -1, rune(-1)
	for at := 0; ; {
		if len(r.now) == 0 {
			if found >= 0 || r.fixed && at > 0 {
				return found
			}
			ahead := strings.Index(s[at:], r.prefix)
			if ahead < 0 {
				ahead = len(s) - at
			}
			if ahead > 0 { // a search for a constant looks at many bytes in one step
				r.steps += int64(ahead) / 16
				at += ahead
				before, _ = utf8.DecodeLastRuneInString(s[:at])
			}
		}
		char, width := rune(-1), 0
		if at < len(s) {
			char, width = utf8.DecodeRuneInString(s[at:])
		}
		start, ok := r.pass(char, syntax.EmptyOpContext(before, char), uint32(at), found < 0)
		if ok {
			found = int(start)
		}
		if !meter.Spend(r.steps + 1) {
			return -1
		}
		if width == 0 || ok && !leftmost {
			return found
		}
		r.steps = 0
		before, at = char, at+width
	}
}

// pass moves all threads over one character, and those that begin at it. It returns
// where the match began that ends before it, if one does: what began later is given
// up then.
func (r *run) pass(char rune, around syntax.EmptyOp, at uint32, begin bool) (start uint32, matched bool) {
	r.round++
	r.next = r.next[:0]
	defer func() { r.now, r.next = r.next, r.now }()
	for _, t := range r.now {
		if r.follow(t.pc, t.start, char, around) {
			return t.start, true
		}
	}
	return at, begin && r.follow(uint32(r.prog.Start), at, char, around)
}

// follow goes on from an instruction to all that it leads to, each once in a round:
// who came first began first. It reports whether that is a match.
func (r *run) follow(pc, start uint32, char rune, around syntax.EmptyOp) (matched bool) {
	for r.seen[pc] != r.round {
		r.seen[pc] = r.round
		r.steps++
		inst := &r.prog.Inst[pc]
		switch inst.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstAlt, syntax.InstAltMatch:
			if r.follow(inst.Out, start, char, around) {
				return true
			}
			pc = inst.Arg
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^around != 0 {
				return false
			}
			pc = inst.Out
		case syntax.InstCapture, syntax.InstNop:
			pc = inst.Out
		case syntax.InstFail:
			return false
		default: // one of those that match a character
			r.steps++
			if char >= 0 && inst.MatchRune(char) {
				r.next = append(r.next, thread{inst.Out, start})
			}
			return false
		}
	}
	return false
}
