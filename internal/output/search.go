package output

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/pattern"
	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// MaxPattern bounds a pattern, in bytes.
	MaxPattern = 512
	// longLine is the longest line, in characters, that is shown whole. Of a
	// longer one (JSON is often a single line) each match is shown with what
	// stands around it.
	longLine = 400
	// leastExcerpt is the least that is shown of a long line, in characters,
	// and entryExtra what an entry adds to it: its offset and signs.
	leastExcerpt, entryExtra = 40, 24
	// breath is how much of a long line is searched at a time, in bytes, and
	// overlap how much of it again with the next: a match longer than that may
	// be missed where two meet.
	breath, overlap = 16 << 10, 1 << 10
	// maxInstructions bounds what a pattern compiles to.
	maxInstructions = 4_000
	// maxWork bounds a search, in steps of the pattern's machine: about a second
	// at worst. A search that reaches it ends early and can be continued, since
	// it has room for one piece whatever the pattern.
	maxWork = breath*maxInstructions + 16<<20
)

// place is a position in a text, in bytes and in characters.
type place struct {
	index int
	char  int64
}

// advance moves to a later index.
func (p place) advance(data []byte, index int) place {
	return place{index: index, char: p.char + int64(countChars(data[p.index:index]))}
}

// finder collects the lines that match.
type finder struct {
	data  []byte
	want  *pattern.Pattern
	meter *pattern.Meter
	limit int // characters of out
	out   []byte
	chars int // of out
	found int
}

// search returns the lines from a place on that match, each as
// "<offset>: <text>\n" where offset is the character at which the text starts.
// Of a line longer than longLine it returns each match with its surroundings,
// "…" where something is left out; such a line is searched in pieces, and ^ and $
// match at their ends too. The place counts as the start of a line. NextOffset
// is where to go on: behind all that was searched.
func search(ctx context.Context, data []byte, from place, total int64, limit int, expression string) (PageResult, *tool.Error) {
	want, wrong := compile(expression)
	if wrong != nil {
		return PageResult{}, wrong
	}
	f := finder{data: data, want: want, meter: pattern.NewMeter(ctx, maxWork), limit: limit}
	from = f.lines(from)
	return PageResult{Content: string(f.out), TotalChars: total, NextOffset: from.char, Matches: f.found}, nil
}

// lines searches from a place on, and returns where to go on.
func (f *finder) lines(from place) place {
	for more := true; more && from.index < len(f.data); {
		from, more = f.line(from, from.index+lineEnd(f.data[from.index:]))
	}
	return from
}

// find returns where the pattern matches first in text, -1 for nowhere; not ok
// when there is no work left.
func (f *finder) find(text []byte) (match int, ok bool) {
	match = f.want.Find(f.meter, string(text))
	return match, f.meter.Err() == nil
}

// compile reads the pattern.
func compile(expression string) (want *pattern.Pattern, wrong *tool.Error) {
	if len(expression) > MaxPattern {
		return nil, wrongArgument("pattern", fmt.Sprintf("maxLength: %d", MaxPattern), quoted(expression),
			fmt.Sprintf("Shorten the pattern to %d bytes at most, then call read_output again.", MaxPattern))
	}
	want, err := pattern.Compile(expression)
	if err == nil && want.Size() > maxInstructions {
		err = fmt.Errorf("its repetitions multiply to more than %d instructions", maxInstructions)
	}
	if err != nil {
		return nil, wrongArgument("pattern", `format: "regex"`, quoted(expression),
			Clean([]byte("error parsing regexp: "+err.Error()))+". Correct the pattern (RE2 syntax: no lookaround, no backreferences), then call read_output again.")
	}
	return want, nil
}

// lineEnd returns the index behind the first line, its \n included.
func lineEnd(b []byte) int {
	if n := bytes.IndexByte(b, '\n'); n >= 0 {
		return n + 1
	}
	return len(b)
}

// line searches the line from a place to end. It returns where to go on, and
// whether there is room for more.
func (f *finder) line(from place, end int) (next place, more bool) {
	text := bytes.TrimSuffix(f.data[from.index:end], []byte("\n"))
	after := from.advance(f.data, end)
	if after.char-from.char > longLine+1 {
		return f.longLine(from, from.index+len(text), after)
	}
	match, ok := f.find(text)
	if match >= 0 {
		ok = f.add(from, text, false, false)
	}
	if !ok {
		return from, false
	}
	return after, true
}

// longLine shows the matches in a line that is too long to be shown whole.
func (f *finder) longLine(from place, end int, after place) (next place, more bool) {
	start := from.index
	for from.index < end {
		piece := min(end, from.index+breath)
		for piece < end && !utf8.RuneStart(f.data[piece]) {
			piece--
		}
		match, ok := f.find(f.data[from.index:piece])
		switch {
		case !ok:
			return from, false
		case match < 0 && piece == end:
			return after, true
		case match < 0:
			piece -= overlap
			for !utf8.RuneStart(f.data[piece]) {
				piece--
			}
			from = from.advance(f.data, piece)
			continue
		}
		head, tail := f.excerpt(from.index, from.index+match, end)
		if !f.add(from.advance(f.data, head), f.data[head:tail], head > start, tail < end) {
			return from, false
		}
		from = from.advance(f.data, tail)
	}
	return after, true
}

// excerpt returns what is shown of a long line for a match: not what stands
// before from, which was shown already.
func (f *finder) excerpt(from, match, end int) (head, tail int) {
	size := min(max(f.limit-entryExtra, leastExcerpt), longLine)
	head = max(from, clusterFloor(f.data, lastChars(f.data[:match], size*3/10)))
	tail = head + indexChar(f.data[head:end], size)
	if at := clusterFloor(f.data, tail); at > match {
		tail = at
	}
	return head, tail
}

// add appends an entry. It refuses one for which there is no room, unless it is
// the first: that is cut to fit.
func (f *finder) add(at place, text []byte, before, after bool) bool {
	entry := strconv.AppendInt(make([]byte, 0, len(text)+32), at.char, 10)
	entry = append(entry, ": "...)
	if before {
		entry = append(entry, "…"...)
	}
	entry = append(entry, text...)
	if after {
		entry = append(entry, "…"...)
	}
	entry = append(entry, '\n')
	chars := countChars(entry)
	if f.chars+chars > f.limit {
		if f.found > 0 {
			return false
		}
		entry = entry[:clusterFloor(entry, indexChar(entry, f.limit-1))]
		entry = append(entry, "…"...)
		chars = countChars(entry)
	}
	f.out = append(f.out, entry...)
	f.chars += chars
	f.found++
	return true
}
