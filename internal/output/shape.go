package output

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/tool"
)

// Shape turns a reply into what the model receives.
func Shape(in Input) Shaped {
	in.fill()
	if len(in.Remarks) > 0 {
		return remarked(in)
	}
	d := compose(&in)
	s := shaped(in, d)
	// A limit of millions of characters may be more bytes than a response holds: then
	// their average length says what to try, and at last the length of the longest.
	for round, most := 0, in.contentMost(); int64(len(s.Content)) > most && in.Limit > 1; round++ {
		fitting := most / utf8.UTFMax
		if round < maxGuesses {
			fitting = int64(utf8.RuneCountInString(s.Content)) * most / int64(len(s.Content))
		}
		in.Limit = min(in.Limit-1, int(max(fitting, 1)))
		s = shaped(in, d)
	}
	return s
}

// maxGuesses is how often a limit in bytes is guessed in characters.
const maxGuesses = 2

// shaped is Shape by the limit in characters alone.
func shaped(in Input, d document) Shaped {
	if !in.Untrusted && !d.cut && d.chars <= in.Limit {
		return d.shown(string(d.body), in.CarryLimit)
	}
	return shape(in, d)
}

// shaping is one result in the making.
type shaping struct {
	in       *Input
	doc      *document
	out      Shaped
	boundary *boundary // nil: trusted, or nothing to mark
	frame    int       // characters of the boundary
}

// shape is Shape for all that needs more than cleaning.
func shape(in Input, d document) Shaped {
	s := shaping{in: &in, doc: &d}
	if in.Untrusted && len(d.body) > 0 {
		b := newBoundary()
		s.boundary = &b
		s.frame = b.chars()
	}
	space := in.Limit - s.frame
	if (d.cut || d.chars > space) && s.strategy() == JSON {
		d.oneSpelling()
	}
	if !d.cut && d.chars <= space {
		return d.shown(s.framed("", d.body, ""), in.CarryLimit)
	}
	s.out = Shaped{Blocks: d.blocks, BlockRefs: d.blockRefs, OriginalChars: int64(d.chars), Truncated: true}
	s.keep()
	s.cut()
	d.keeper.finish(&s.out)
	return s.out
}

// strategy is how the result is cut if it must be.
func (s *shaping) strategy() string {
	switch s.in.Strategy {
	case Head, Tail, HeadTail:
		return s.in.Strategy
	default:
		if s.doc.tree != nil {
			return JSON
		}
		return HeadTail
	}
}

// keep sets aside what read_output will serve.
func (s *shaping) keep() {
	if !s.in.Keep || len(s.doc.body) == 0 {
		return
	}
	s.out.Ref = cmp.Or(s.doc.keeper.ref, NewRef(s.in.Conversation))
	s.out.Kept = s.doc.body
	s.out.KeptComplete = !s.doc.cut
	if most := s.in.KeepLimit - s.doc.keeper.bytes(); int64(len(s.doc.body)) > most {
		at := int(most)
		for at > 0 && !utf8.RuneStart(s.doc.body[at]) {
			at--
		}
		s.out.Kept = s.doc.body[:clusterFloor(s.doc.body, at)]
		s.out.KeptComplete = false
	}
}

// cut shows a part, with the fullest notice that leaves room for one.
func (s *shaping) cut() {
	s.out.Strategy = s.strategy()
	n := notice{total: s.doc.chars, atLeast: s.doc.cut, ref: s.out.Ref, keptChars: s.doc.chars}
	if s.out.Ref != "" && len(s.out.Kept) < len(s.doc.body) {
		n.keptChars = countChars(s.out.Kept)
	}
	if s.out.Strategy == JSON {
		s.cutJSON(n)
	} else {
		s.cutText(n)
	}
}

func (s *shaping) cutText(n notice) {
	for level := range levels {
		if s.boundary != nil && level > counts {
			break
		}
		space := s.in.Limit - s.frame - n.widest(level) - separator(level)
		if space < leastBody[level] {
			continue
		}
		c := cutText(s.doc.body, s.doc.chars, space, s.out.Strategy)
		s.out.Strategy, s.out.ReturnedChars = c.strategy, int64(c.shown)
		n.shown, n.next = c.shown, c.next
		text := make([]byte, 0, len(c.head)+len(c.gap)+len(c.tail))
		text = append(append(append(text, c.head...), c.gap...), c.tail...)
		s.out.Content = s.join(text, n.text(level), level)
		return
	}
	s.onlyNotice(n)
}

// separator is what stands between a result and its notice.
func separator(level int) int {
	if level > counts {
		return 0
	}
	return 1
}

// join puts the notice where the text was cut.
func (s *shaping) join(text []byte, notice string, level int) string {
	between := "\n"[:separator(level)]
	if s.out.Strategy == Tail {
		return s.framed(notice+between, text, "")
	}
	return s.framed("", text, between+notice)
}

// The object around trusted JSON that was cut.
const (
	beforeNotice = `{"_truncated":`
	beforeResult = `,"result":`
)

func (s *shaping) cutJSON(n notice) {
	for level := full; level <= word; level++ {
		space := s.in.Limit - s.frame - n.widest(level)
		if s.boundary != nil {
			space -= separator(full)
		} else {
			space -= len(beforeNotice) + quotes(n, level) + len(beforeResult) + len(`}`)
		}
		if space < max(leastBody[level], minValue) || s.boundary != nil && level > counts {
			continue
		}
		result, shown := cutJSON(s.doc.tree, space)
		shown = min(shown, n.total) // the brackets that close what was read are ours
		s.out.ReturnedChars = int64(shown)
		n.shown = shown
		if s.boundary != nil {
			s.out.Content = s.join(result, n.text(level), full)
			return
		}
		b := tool.AppendQuoted([]byte(beforeNotice), n.text(level))
		b = append(append(append(b, beforeResult...), result...), '}')
		s.out.Content = string(b)
		return
	}
	if s.boundary == nil {
		s.onlyNoticeJSON(n)
		return
	}
	s.onlyNotice(n)
}

// quotes is how many characters a notice takes more as a string of JSON.
func quotes(n notice, level int) int {
	text := n.text(level)
	return len(tool.AppendQuoted(nil, text)) - len(text)
}

// onlyNotice is for limits that leave no room for anything else.
func (s *shaping) onlyNotice(n notice) {
	for level := range levels {
		if text := n.text(level); utf8.RuneCountInString(text) <= s.in.Limit {
			s.out.Content = text
			return
		}
	}
}

// onlyNoticeJSON keeps to JSON as long as there is room for its quotes.
func (s *shaping) onlyNoticeJSON(n notice) {
	for level := range levels {
		text := n.text(level)
		quoted := tool.AppendQuoted(nil, text)
		if countChars(quoted)+len(beforeNotice)+len(`}`) <= s.in.Limit {
			s.out.Content = beforeNotice + string(quoted) + `}`
			return
		}
	}
	for level := brief; level < levels; level++ {
		quoted := tool.AppendQuoted(nil, n.text(level))
		if countChars(quoted) <= s.in.Limit {
			s.out.Content = string(quoted)
			return
		}
	}
	s.out.Content = n.text(sign)
}

// framed puts untrusted text into its boundary, between before and after.
func (s *shaping) framed(before string, text []byte, after string) string {
	var out strings.Builder
	out.Grow(len(before) + len(text) + s.frame + len(after))
	out.WriteString(before)
	if s.boundary == nil {
		out.Write(text)
	} else {
		s.boundary.write(&out, text)
	}
	out.WriteString(after)
	return out.String()
}
