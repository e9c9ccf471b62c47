package output

import (
	"bytes"
	"unicode/utf8"
)

// CleanJSON cleans a JSON text as Clean does other text, in the strings and
// through their escapes (\u202e, \u001b); numbers, key order and white space stay
// as they are. ok is false when the text is not one JSON value; it is returned
// as it is then.
func CleanJSON(b []byte) (clean []byte, ok bool) {
	b = withoutBOM(b)
	scan := scanJSON(b)
	if !scan.valid || !scan.dirty {
		return b, scan.valid
	}
	return cleanStrings(b), true
}

func withoutBOM(b []byte) []byte { return bytes.TrimPrefix(b, []byte("\uFEFF")) }

// cleanStrings cleans what is known to be JSON.
func cleanStrings(b []byte) []byte {
	c := stringCleaner{out: make([]byte, 0, len(b)+utf8.UTFMax)}
	for i := 0; i < len(b); {
		switch b[i] {
		case '"':
			end := skipString(b, i)
			c.str(b[i:end])
			i = end
		case '\r':
			if i++; i == len(b) || b[i] != '\n' {
				c.out = append(c.out, '\n')
			}
		default:
			c.out = append(c.out, b[i])
			i++
		}
	}
	return c.out
}

// stringCleaner cleans JSON strings one by one, with two buffers for all.
type stringCleaner struct {
	out, text, cleaned []byte
}

// str appends a string, cleaned. One that is clean already keeps its spelling.
func (c *stringCleaner) str(quoted []byte) {
	s := scanner{b: quoted}
	if s.str() && !s.dirty {
		c.out = append(c.out, quoted...)
		return
	}
	c.text = appendUnquoted(c.text[:0], quoted[1:len(quoted)-1])
	c.cleaned = cleanFrom(c.cleaned[:0], c.text, firstTrouble(c.text))
	c.out = append(appendEscaped(append(c.out, '"'), c.cleaned), '"')
}

// skipString returns the index behind the string whose opening quote is at i.
func skipString(b []byte, i int) int {
	i++
	for {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		backslashes := 0
		for j := i + n - 1; j >= i && b[j] == '\\'; j-- {
			backslashes++
		}
		if i += n + 1; backslashes%2 == 0 {
			return i
		}
	}
}

// appendUnquoted decodes the inside of a valid JSON string. Invalid UTF-8 stays
// as it is; a lone surrogate becomes U+FFFD.
func appendUnquoted(dst, b []byte) []byte {
	for i := 0; i < len(b); {
		n := bytes.IndexByte(b[i:], '\\')
		if n < 0 {
			return append(dst, b[i:]...)
		}
		dst = append(dst, b[i:i+n]...)
		if i += n; b[i+1] == 'u' {
			var r rune
			r, i = unescape(b, i)
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = append(dst, unescaped(b[i+1]))
		i += 2
	}
	return dst
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default:
		return c
	}
}

// appendEscaped writes clean text as the inside of a JSON string.
func appendEscaped(dst, text []byte) []byte {
	start := 0
	for i, c := range text {
		if escapedLen(c) == 1 {
			continue
		}
		dst = append(append(dst, text[start:i]...), '\\')
		start = i + 1
		switch c {
		case '\n':
			dst = append(dst, 'n')
		case '\t':
			dst = append(dst, 't')
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, text[start:]...)
}

// escapedLen is how many characters a byte of clean text takes in a JSON string.
func escapedLen(c byte) int {
	switch c {
	case '"', '\\', '\n', '\t':
		return 2
	default:
		return 1
	}
}
