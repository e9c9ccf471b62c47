package pattern

import (
	"regexp/syntax"
	"strings"
	"sync"
	"unicode/utf8"
)

// machine runs a compiled expression over a text, all alternatives at once, as
// Go's own does when nothing simpler will do (Pike's machine). It exists beside
// that one because it can be stopped, and tells what it takes. It is safe for
// concurrent use.
type machine struct {
	prog   *syntax.Prog
	prefix string // every match begins with it
	whole  bool   // and is nothing else
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
	m.prefix, m.whole = prog.Prefix()
	return m
}

// run is one search.
type run struct {
	*machine
	meter *Meter
	now   threads
	next  threads
	steps int64 // taken, and not yet told the meter
}

// threads are the instructions at which the machine stands, the most wanted
// first, each with the index at which its match began.
type threads struct {
	dense  []thread
	sparse []uint32 // where in dense an instruction stands, if it does
}

type thread struct{ pc, start uint32 }

func newThreads(n int) threads {
	return threads{sparse: make([]uint32, n)}
}

func (t *threads) has(pc uint32) bool {
	at := t.sparse[pc]
	return int(at) < len(t.dense) && t.dense[at].pc == pc
}

func (t *threads) put(pc, start uint32) {
	t.sparse[pc] = uint32(len(t.dense)) // below the length of a program
	t.dense = append(t.dense, thread{pc, start})
}

// search returns where some match begins; -1 when there is none or the meter
// has stopped. It ends with the first sign of a match.
func (m *machine) search(meter *Meter, s string) int { return m.run(meter, s, false) }

// find returns where the leftmost match begins.
func (m *machine) find(meter *Meter, s string) int { return m.run(meter, s, true) }

func (m *machine) run(meter *Meter, s string, leftmost bool) int {
	if !meter.Spend(1) {
		return -1
	}
	if m.whole && m.prefix != "" {
		// A search for a constant looks at many bytes in one step.
		if !meter.Spend(int64(len(s)) / 16) {
			return -1
		}
		return strings.Index(s, m.prefix)
	}
	r, ok := m.runs.Get().(*run)
	if !ok {
		size := len(m.prog.Inst)
		r = &run{machine: m, now: newThreads(size), next: newThreads(size)}
	}
	r.meter, r.now.dense, r.next.dense = meter, r.now.dense[:0], r.next.dense[:0]
	found := r.over(s, leftmost)
	r.meter = nil
	m.runs.Put(r)
	return found
}

// over goes over the text, character by character.
func (r *run) over(s string, leftmost bool) int {
	found, before := -1, rune(-1)
	for at := 0; ; {
		if len(r.now.dense) == 0 {
			if found >= 0 || r.fixed && at > 0 {
				return found
			}
			if at = r.skip(s, at, &before); at < 0 {
				return -1
			}
		}
		char, width := charAt(s, at)
		around := syntax.EmptyOpContext(before, char)
		if found < 0 {
			r.follow(&r.now, uint32(r.prog.Start), uint32(at), around)
		}
		after := syntax.EmptyOp(0)
		if width > 0 {
			after = r.after(s, at+width, char)
		}
		if start, ok := r.step(char, width, after); ok {
			found = start
			if !leftmost {
				return found
			}
		}
		if !r.tell() {
			return -1
		}
		r.now, r.next = r.next, r.now
		r.next.dense = r.next.dense[:0]
		if width == 0 {
			return found
		}
		before, at = char, at+width
	}
}

// after is what holds between a character and the one at an index.
func (r *run) after(s string, at int, char rune) syntax.EmptyOp {
	next, _ := charAt(s, at)
	return syntax.EmptyOpContext(char, next)
}

// charAt is the character at an index, and its bytes; -1 and none behind the end.
func charAt(s string, at int) (char rune, width int) {
	if at >= len(s) {
		return -1, 0
	}
	return utf8.DecodeRuneInString(s[at:])
}

// skip returns where the next match can begin at the earliest; -1 for nowhere.
// before is the character before that.
func (r *run) skip(s string, at int, before *rune) int {
	if r.prefix == "" || r.fixed {
		return at
	}
	ahead := strings.Index(s[at:], r.prefix)
	if ahead < 0 {
		r.steps += int64(len(s)-at) / 16
		return -1
	}
	r.steps += int64(ahead) / 16
	if ahead > 0 {
		*before, _ = utf8.DecodeLastRuneInString(s[:at+ahead])
	}
	return at + ahead
}

// tell tells the meter of the steps taken; false when it is to end.
func (r *run) tell() bool {
	steps := r.steps + 1
	r.steps = 0
	return r.meter.Spend(steps)
}

// step moves all threads over one character. It returns where the match began
// that is found here, if there is one: what is less wanted is given up then.
func (r *run) step(char rune, width int, after syntax.EmptyOp) (start int, found bool) {
	for _, t := range r.now.dense {
		r.steps++
		inst := &r.prog.Inst[t.pc]
		switch inst.Op {
		case syntax.InstMatch:
			return int(t.start), true
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if width > 0 && inst.MatchRune(char) {
				r.follow(&r.next, inst.Out, t.start, after)
			}
		}
	}
	return -1, false
}

// follow adds an instruction and all that it leads to without a character. What
// holds there is known to the caller.
func (r *run) follow(to *threads, pc, start uint32, around syntax.EmptyOp) {
	for !to.has(pc) {
		r.steps++
		to.put(pc, start)
		inst := &r.prog.Inst[pc]
		switch inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			r.follow(to, inst.Out, start, around)
			pc = inst.Arg
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^around != 0 {
				return
			}
			pc = inst.Out
		case syntax.InstCapture, syntax.InstNop:
			pc = inst.Out
		default:
			return
		}
	}
}
