package output

import (
	"bytes"
	"html"
	"unicode/utf16"
	"unicode/utf8"
)

// decode returns the character that a text has at i to a reader who undoes escapes,
// of JSON and its relatives (\u003c, \\u003c, \x3c), of HTML (&lt; &amp;#60;) and of
// URLs (%3C, %253C), one within the other (\u0026lt;), and how many bytes it takes.
// Backslashes that are no escape are one backslash, however many.
func decode(text []byte, i int) (r rune, size int) {
	r, size = utf8.DecodeRune(text[i:])
	for {
		var next rune
		var n int
		var escape bool
		switch r {
		case '\\':
			next, n, escape = afterBackslash(text[i+size:])
		case '&':
			next, n, escape = afterAmpersand(text[i+size:])
		case '%':
			next, n, escape = afterPercent(text[i+size:])
		default:
			return r, size
		}
		if size += n; !escape {
			return r, size
		}
		r = next
	}
}

// afterBackslash decodes what follows a backslash, with all further ones: half of an
// escaped escape would break the JSON.
func afterBackslash(b []byte) (r rune, size int, ok bool) {
	n := 0
	for n < len(b) && b[n] == '\\' {
		n++
	}
	if n == len(b) {
		return 0, n, false
	}
	switch b[n] {
	case 'u':
		r, size = unicodeEscape(b[n+1:])
	case 'U':
		r, size = hex(b[n+1:], 8)
	case 'x', 'X':
		r, size = hex(b[n+1:], 2)
	case 'n', 'r', 't', 'v', 'f':
		return '\n', n + 1, true
	case '0', '1', '2', '3', '4', '5', '6', '7':
		r, size = octal(b[n:])
		return r, n + size, true
	}
	if size == 0 {
		return 0, n, false
	}
	return r, n + 1 + size, true
}

// unicodeEscape reads the digits of \u003c, of \u{3c}, or of a pair of surrogates.
// size is 0 when there are none.
func unicodeEscape(b []byte) (r rune, size int) {
	if len(b) > 0 && b[0] == '{' {
		end := bytes.IndexByte(b[:min(len(b), 10)], '}')
		if r, size = hex(b[1:], end-1); size == 0 {
			return 0, 0
		}
		return r, end + 1
	}
	r, size = hex(b, 4)
	if size == 0 || !utf16.IsSurrogate(r) {
		return r, size
	}
	after := b[4:min(len(b), 4+16)]
	if rest := bytes.TrimLeft(after, `\`); len(rest) > 0 && rest[0] == 'u' {
		if low, n := hex(rest[1:], 4); n > 0 && utf16.DecodeRune(r, low) != utf8.RuneError {
			return utf16.DecodeRune(r, low), 4 + len(after) - len(rest) + 1 + n
		}
	}
	return r, size
}

// hex reads n hexadecimal digits; size is 0 when there are fewer.
func hex(b []byte, n int) (r rune, size int) {
	if n < 1 || len(b) < n {
		return 0, 0
	}
	for _, c := range b[:n] {
		digit := digitOf(c)
		if digit == 16 {
			return 0, 0
		}
		r = r<<4 | digit
	}
	return r, n
}

// octal reads up to three octal digits, of which the first is one.
func octal(b []byte) (r rune, size int) {
	for size < min(len(b), 3) && b[size] >= '0' && b[size] <= '7' {
		r = r<<3 + rune(b[size]-'0')
		size++
	}
	return r, size
}

// digitOf is the value of a hexadecimal digit; 16 for what is none.
func digitOf(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10
	default:
		return 16
	}
}

// maxEntity is longer than the longest name of an entity.
const maxEntity = 32

// afterAmpersand decodes what follows the sign that begins a reference of HTML.
func afterAmpersand(b []byte) (r rune, size int, ok bool) {
	if len(b) > 0 && b[0] == '#' {
		r, size = numericEntity(b[1:])
		if size == 0 {
			return 0, 0, false
		}
		return r, 1 + size, true
	}
	end := 0
	for end < min(len(b), maxEntity) && isAlphanumeric(b[end]) {
		end++
	}
	if end < len(b) && b[end] == ';' {
		reference := "&" + string(b[:end+1])
		if decoded := html.UnescapeString(reference); decoded != reference {
			r, _ = utf8.DecodeRuneInString(decoded)
			return r, end + 1, true
		}
	}
	if bytes.EqualFold(b[:min(end, 2)], []byte("lt")) { // browsers need no semicolon
		return '<', 2, true
	}
	return 0, 0, false
}

// numericEntity reads the digits of &#60; or &#x3c; and what ends them.
func numericEntity(b []byte) (r rune, size int) {
	base := rune(10)
	if len(b) > 0 && b[0]|0x20 == 'x' {
		base, size = 16, 1
	}
	start := size
	for ; size < len(b) && digitOf(b[size]) < base; size++ {
		if r <= utf8.MaxRune {
			r = r*base + digitOf(b[size])
		}
	}
	if size == start {
		return 0, 0
	}
	if size < len(b) && b[size] == ';' {
		size++
	}
	return r, size
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// afterPercent decodes what URLs escape.
func afterPercent(b []byte) (r rune, size int, ok bool) {
	first, size := hex(b, 2)
	if size == 0 || first < utf8.RuneSelf {
		return first, size, size > 0
	}
	encoded := [utf8.UTFMax]byte{byte(first)}
	n, end := 1, size
	for ; n < utf8.UTFMax && !utf8.FullRune(encoded[:n]) && end < len(b) && b[end] == '%'; n++ {
		next, more := hex(b[end+1:], 2)
		if more == 0 {
			break
		}
		encoded[n] = byte(next)
		end += 1 + more
	}
	if r, length := utf8.DecodeRune(encoded[:n]); r != utf8.RuneError && length == n {
		return r, end, true
	}
	return utf8.RuneError, size, true
}
