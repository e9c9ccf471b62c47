package output

import (
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting is how deep JSON may be nested to be taken for JSON here, the same
// as in encoding/json. What is deeper is cut as text.
const maxNesting = 10_000

// jsonScan is what one pass over a text tells about it.
type jsonScan struct {
	// valid: the text is one JSON value (RFC 8259), apart from invalid UTF-8
	// and lone surrogates in its strings, which cleaning mends.
	valid bool
	// dirty: cleaning might change it.
	dirty bool
	// open: it is the beginning of an object or array. Up to safe it consists
	// of whole values, and closers ends what is open there.
	open    bool
	safe    int
	closers []byte
}

// scanner checks JSON without building anything. Nesting is a stack of the
// brackets that are due, so that depth costs a byte a level.
type scanner struct {
	b         []byte
	i         int
	due       []byte
	dirty     bool
	safe      int
	safeDepth int
}

func scanJSON(b []byte) jsonScan {
	var room [32]byte
	s := scanner{b: b, due: room[:0]}
	valid := s.value()
	for valid && len(s.due) > 0 {
		valid = s.next()
	}
	if valid {
		s.space()
		return jsonScan{valid: s.i == len(b), dirty: s.dirty}
	}
	if s.i < len(b) || s.safe == 0 {
		return jsonScan{}
	}
	end := jsonScan{open: true, safe: s.safe}
	for depth := s.safeDepth - 1; depth >= 0; depth-- {
		end.closers = append(end.closers, s.due[depth])
	}
	return end
}

// mark notes that the text up to here can be closed.
func (s *scanner) mark() { s.safe, s.safeDepth = s.i, len(s.due) }

// next continues the innermost object or array behind one of its values.
func (s *scanner) next() bool {
	s.mark()
	s.space()
	if s.i >= len(s.b) {
		return false
	}
	closer := s.due[len(s.due)-1]
	switch s.b[s.i] {
	case closer:
		s.i++
		s.due = s.due[:len(s.due)-1]
		return true
	case ',':
		s.i++
		if closer == '}' {
			return s.key() && s.value()
		}
		return s.value()
	default:
		return false
	}
}

// value reads a value; of an object or array that is not empty, all up to the
// end of its first member that is no such thing itself.
func (s *scanner) value() bool {
	for {
		s.space()
		if s.i >= len(s.b) {
			return false
		}
		c := s.b[s.i]
		if c != '{' && c != '[' {
			return s.scalar(c)
		}
		if len(s.due) == maxNesting {
			return false
		}
		s.i++
		s.due = append(s.due, c+2) // ] and } stand two behind [ and {
		s.mark()
		s.space()
		if s.i < len(s.b) && s.b[s.i] == c+2 {
			s.i++
			s.due = s.due[:len(s.due)-1]
			return true
		}
		if c == '{' && !s.key() {
			return false
		}
	}
}

func (s *scanner) key() bool {
	s.space()
	if s.i >= len(s.b) || s.b[s.i] != '"' || !s.str() {
		return false
	}
	s.space()
	if s.i >= len(s.b) || s.b[s.i] != ':' {
		return false
	}
	s.i++
	return true
}

func (s *scanner) scalar(c byte) bool {
	switch c {
	case '"':
		return s.str()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.number()
	}
}

func (s *scanner) space() {
	for ; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case ' ', '\n', '\t':
		case '\r':
			s.dirty = true
		default:
			return
		}
	}
}

func (s *scanner) word(w string) bool {
	for j := range len(w) {
		if s.i >= len(s.b) || s.b[s.i] != w[j] {
			return false
		}
		s.i++
	}
	return true
}

func (s *scanner) number() bool {
	if s.at('-') {
		s.i++
	}
	if s.at('0') {
		s.i++
	} else if !s.digits() {
		return false
	}
	if s.at('.') {
		s.i++
		if !s.digits() {
			return false
		}
	}
	if s.at('e') || s.at('E') {
		s.i++
		if s.at('+') || s.at('-') {
			s.i++
		}
		if !s.digits() {
			return false
		}
	}
	// The number may go on where the text was cut, unless it is all there is.
	return s.i < len(s.b) || len(s.due) == 0
}

func (s *scanner) at(c byte) bool { return s.i < len(s.b) && s.b[s.i] == c }

func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > start
}

// str reads a string, whose opening quote is at i.
func (s *scanner) str() bool {
	s.i++
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return true
		case c == '\\':
			if !s.escape() {
				return false
			}
		case c < 0x20:
			return false
		case c < 0x7F:
			s.i++
		case c == 0x7F:
			s.dirty = true
			s.i++
		default:
			r, size := utf8.DecodeRune(s.b[s.i:])
			if r == utf8.RuneError && size == 1 || fateOf(r) != kept {
				s.dirty = true
			}
			s.i += size
		}
	}
	return false
}

// escape reads the escape sequence at i.
func (s *scanner) escape() bool {
	if s.i++; s.i >= len(s.b) {
		return false
	}
	switch s.b[s.i] {
	case '"', '\\', '/', 'n', 't':
		s.i++
		return true
	case 'b', 'f', 'r':
		s.dirty = true
		s.i++
		return true
	case 'u':
	default:
		return false
	}
	r, end := unescape(s.b, s.i-1)
	if end == 0 {
		if len(s.b)-s.i < 5 {
			s.i = len(s.b) // cut in the middle
		}
		return false
	}
	s.i = end
	if r < 0x20 && r != '\n' && r != '\t' || r == 0x7F || r >= 0x80 && fateOf(r) != kept || r == utf8.RuneError {
		s.dirty = true
	}
	return true
}

// unescape decodes the \u escape at i, or a pair of them that is a surrogate
// pair; a lone surrogate is U+FFFD. The end is 0 when it is malformed.
func unescape(b []byte, i int) (r rune, end int) {
	r, ok := hex4(b, i)
	if !ok {
		return 0, 0
	}
	i += 6
	if !utf16.IsSurrogate(r) {
		return r, i
	}
	if low, ok := hex4(b, i); ok {
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, i + 6
		}
	}
	return utf8.RuneError, i
}

// hex4 decodes \uXXXX at i.
func hex4(b []byte, i int) (rune, bool) {
	if len(b)-i < 6 || b[i] != '\\' || b[i+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[i+2 : i+6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
