package output

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// minValue is how many characters any value can be shown in: itself, or a
	// marker in its place.
	minValue = 40
	// maxDepth is how deep a value that does not fit is opened to show a part
	// of it. Each level reads it once more, so maxReads bounds the work of all,
	// in bytes, and for a large text in times its length.
	maxDepth           = 32
	maxReads, maxTimes = 16 << 20, 8
	// sharers is how many leading items of an array have a claim to a fair
	// share, when they are too large to be shown whole.
	sharers = 4
)

// leftOut is the member that says how many members an object lost.
const leftOut = "_left_out"

// part is a member of an object or an item of an array, by its place in the
// source.
type part struct {
	key, value      []byte // the key with quotes; nil in an array
	keyChars, chars int
}

// overhead is what a part costs besides its value: key, colon, comma.
func (p part) overhead() int {
	if p.key == nil {
		return 1
	}
	return p.keyChars + 2
}

// least is the room in which a part can be shown in some way.
func (p part) least() int { return p.overhead() + min(p.chars, minValue) }

func least(parts []part) (space int) {
	for _, p := range parts {
		space += p.least()
	}
	return space
}

// jsonCutter writes as much of a JSON value as fits.
type jsonCutter struct {
	out     []byte
	markers int // characters of out that are ours
	reads   int // bytes that may still be read
}

// cutJSON returns valid JSON of at most room characters, at least minValue, and
// how many characters of the source it shows. src is valid JSON, clean and compact.
func cutJSON(src []byte, space int) (out []byte, shown int) {
	c := jsonCutter{
		out:   make([]byte, 0, min(len(src), space+space/4)+minValue),
		reads: max(maxReads, maxTimes*len(src)),
	}
	c.value(src, countChars(src), space, 0)
	return c.out, countChars(c.out) - c.markers
}

// value writes a value in at most room characters, at least minValue.
func (c *jsonCutter) value(src []byte, chars, space, depth int) {
	if chars <= space {
		c.out = append(c.out, src...)
		return
	}
	switch src[0] {
	case '[':
		c.array(src, space, depth)
	case '{':
		c.object(src, space, depth)
	case '"':
		c.str(src, space)
	default:
		c.marker(`"[number of %d digits left out]"`, chars)
	}
}

func (c *jsonCutter) marker(format string, args ...any) {
	before := len(c.out)
	c.out = fmt.Appendf(c.out, format, args...)
	c.markers += countChars(c.out[before:])
}

// open lists the parts of an object or array: as many of the first ones as could be
// shown in room characters, and how many there are in all.
func (c *jsonCutter) open(src []byte, space, depth int) (parts []part, total int) {
	c.reads -= len(src)
	if depth >= maxDepth || c.reads < 0 {
		space = 0
	}
	most := space / len("1,")
	if src[0] == '{' {
		most = space / len(`"":1,`)
	}
	dec := newDecoder(src)
	next := func() []byte {
		value, _ := dec.ReadValue() // it is JSON
		end := int(dec.InputOffset())
		return src[end-len(value) : end]
	}
	_, _ = dec.ReadToken()
	for dec.PeekKind() != jsontext.KindEndObject && dec.PeekKind() != jsontext.KindEndArray {
		var p part
		if src[0] == '{' {
			p.key = next()
		}
		if p.value = next(); len(p.value) == 0 { // never in JSON, and without end in what is none
			break
		}
		if total++; len(parts) < most {
			p.keyChars, p.chars = countChars(p.key), countChars(p.value)
			parts = append(parts, p)
		}
	}
	return parts, total
}

// array shows the leading items whole, or, when they are large, the first few
// at a fair share each, and says how many follow.
func (c *jsonCutter) array(src []byte, space, depth int) {
	parts, total := c.open(src, space, depth)
	const widest = len(`,"[ of  items left out]"`)
	avail := space - len("[]")
	if total > sharers || least(parts) > avail {
		avail -= widest + 2*decimals(total)
	}
	share := fairShare(parts[:min(len(parts), sharers)], avail)
	c.out = append(c.out, '[')
	n := 0
	for n < len(parts) {
		p := parts[n]
		size := min(p.chars, share)
		if size+p.overhead() > avail {
			break
		}
		if n > 0 {
			c.out = append(c.out, ',')
		}
		before := len(c.out)
		c.value(p.value, p.chars, size, depth+1)
		avail -= countChars(c.out[before:]) + p.overhead()
		n++
	}
	switch {
	case n == 0:
		c.marker(`"[%d items left out]"`, total)
	case n < total:
		c.marker(`,"[%d of %d items left out]"`, total-n, total)
	}
	c.out = append(c.out, ']')
}

// object shrinks the largest members, or drops them when there are too many,
// and says how many it dropped.
func (c *jsonCutter) object(src []byte, space, depth int) {
	parts, total := c.open(src, space, depth)
	const widest = len(`,"_left_out__":" of  members"`)
	avail := space - len("{}")
	if len(parts) < total || least(parts) > avail {
		avail -= widest + 2*decimals(total)
		parts = smallest(parts, avail)
	}
	share := fairShare(parts, avail)
	c.out = append(c.out, '{')
	for i, p := range parts {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = append(append(c.out, p.key...), ':')
		c.value(p.value, p.chars, min(p.chars, share), depth+1)
	}
	switch n := len(parts); {
	case n == 0:
		c.marker(`"%s":"%d members"`, leftOut, total)
	case n < total:
		c.marker(`,"%s":"%d of %d members"`, freeKey(parts), total-n, total)
	}
	c.out = append(c.out, '}')
}

// str shows the head and the tail of a string.
func (c *jsonCutter) str(src []byte, space int) {
	text, _ := jsontext.AppendUnquote(nil, src)
	total := countChars(text)
	space -= len(`""`) + utf8.RuneCountInString(stringGap(total))
	if space < 16 {
		c.marker(`"[%d characters left out]"`, total)
		return
	}
	head := text[:clusterFloor(text, escapedHead(text, space/2))]
	tail := text[max(len(head), clusterCeil(text, escapedTail(text, space-space/2))):]
	gap := stringGap(total - countChars(head) - countChars(tail))
	c.markers += utf8.RuneCountInString(gap)
	c.out = tool.AppendQuoted(c.out, slices.Concat(head, []byte(gap), tail))
}

func stringGap(left int) string { return "[… " + strconv.Itoa(left) + " characters left out …]" }

// escapedLen is how many characters a byte of clean text takes in a JSON string.
func escapedLen(c byte) int {
	switch c {
	case '"', '\\', '\n', '\t':
		return 2
	default:
		return 1
	}
}

// escapedHead returns the index behind as much of text as takes at most room
// characters in a JSON string.
func escapedHead(text []byte, space int) int {
	i := 0
	for i < len(text) && space >= escapedLen(text[i]) {
		_, size := utf8.DecodeRune(text[i:])
		space -= escapedLen(text[i])
		i += size
	}
	return i
}

// escapedTail is escapedHead from the end.
func escapedTail(text []byte, space int) int {
	i := len(text)
	for i > 0 {
		_, size := utf8.DecodeLastRune(text[:i])
		if space -= escapedLen(text[i-size]); space < 0 {
			break
		}
		i -= size
	}
	return i
}

// smallest returns the parts that can be shown in avail characters, each in
// minValue at the least, in their order; the largest are not among them, and of
// equals the later ones.
func smallest(parts []part, avail int) []part {
	bySize := make([]int, len(parts))
	for i := range bySize {
		bySize[i] = i
	}
	slices.SortStableFunc(bySize, func(a, b int) int {
		return cmp.Compare(parts[a].overhead()+parts[a].chars, parts[b].overhead()+parts[b].chars)
	})
	n := 0
	for ; n < len(bySize); n++ {
		if avail -= parts[bySize[n]].least(); avail < 0 {
			break
		}
	}
	chosen := bySize[:n]
	slices.Sort(chosen)
	out := make([]part, 0, n)
	for _, i := range chosen {
		out = append(out, parts[i])
	}
	return out
}

// fairShare returns the size to which the largest parts must be cut so that all
// fit in room with their overhead; no limit when they fit as they are. It is
// never below minValue.
func fairShare(parts []part, space int) int {
	sizes := make([]int, 0, len(parts))
	for _, p := range parts {
		sizes = append(sizes, p.chars)
		space -= p.overhead()
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		if share := space / (len(sizes) - i); size > share {
			return max(share, minValue)
		}
		space -= size
	}
	return math.MaxInt
}

// freeKey is a name for the marker that no member has.
func freeKey(parts []part) string {
	key := leftOut
	taken := func(p part) bool { return string(p.key) == `"`+key+`"` }
	for range 2 {
		if slices.ContainsFunc(parts, taken) {
			key += "_"
		}
	}
	return key
}

func decimals(n int) int { return len(strconv.Itoa(n)) }
