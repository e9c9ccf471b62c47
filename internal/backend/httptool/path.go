package httptool

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// path is a compiled path template.
type path struct {
	segments []segment
	query    string // fixed, escaped, without "?"
}

// segment is one path segment: literals and arguments in turn.
type segment struct{ parts []part }

// part is a literal as it goes into the URL, or an argument.
type part struct {
	literal  string
	argument string
}

// parsePath compiles a template such as /orders/{order_id}/items.
func parsePath(template string) (*path, error) {
	rest, query, _ := strings.Cut(template, "?")
	p := &path{query: query}
	if strings.ContainsAny(query, "{}#") || !validEscapes(query) {
		return nil, fmt.Errorf("path %q: after ? only a fixed, escaped query; arguments go into query", template)
	}
	if rest == "" {
		return p, nil
	}
	if rest[0] != '/' {
		return nil, fmt.Errorf("path %q: want a / at the start", template)
	}
	texts := strings.Split(rest[1:], "/")
	for i, text := range texts {
		last := i == len(texts)-1
		if text == "" && !last {
			return nil, fmt.Errorf("path %q: an empty segment", template)
		}
		seg, err := parseSegment(text)
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", template, err)
		}
		p.segments = append(p.segments, seg)
	}
	return p, nil
}

func parseSegment(text string) (segment, error) {
	var seg segment
	for whole := text; text != ""; {
		open := strings.IndexAny(text, "{}")
		if open < 0 {
			open = len(text)
		}
		if literal := text[:open]; literal != "" {
			if !validEscapes(literal) || strings.ContainsAny(literal, `#\`) {
				return seg, fmt.Errorf("segment %q: write it percent-encoded", whole)
			}
			seg.parts = append(seg.parts, part{literal: literal})
		}
		if text = text[open:]; text == "" {
			break
		}
		end := strings.IndexByte(text, '}')
		if text[0] == '}' || end < 0 {
			return seg, fmt.Errorf("segment %q: braces do not match", whole)
		}
		name := text[1:end]
		if name == "" || strings.ContainsRune(name, '{') {
			return seg, fmt.Errorf("segment %q: want {argument}", whole)
		}
		seg.parts = append(seg.parts, part{argument: name})
		text = text[end+1:]
	}
	if len(seg.parts) == 1 && seg.parts[0].argument == "" && astray(seg.parts[0].literal) != nil {
		return seg, errors.New("a . or .. segment")
	}
	return seg, nil
}

// validEscapes reports whether text can stand in a URL as it is.
func validEscapes(text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>^`|", c) >= 0 {
			return false
		}
	}
	_, err := url.PathUnescape(text)
	return err == nil
}

// arguments are the names in the template.
func (p *path) arguments() []string {
	var names []string
	for _, seg := range p.segments {
		for _, part := range seg.parts {
			if part.argument != "" && !slices.Contains(names, part.argument) {
				names = append(names, part.argument)
			}
		}
	}
	return names
}

// What can be wrong with a segment as a whole.
var (
	errEmptySegment = errors.New("it would leave the path segment empty")
	errClimbs       = errors.New("it would lead to another path (. or .. between slashes)")
	errNoEscape     = errors.New("it has a % that looks like an escape and is no escape (%XX)")
	errControl      = errors.New("it has control characters, which a path cannot have")
)

// append writes the segment with the texts of its arguments, in order.
func (seg segment) append(b []byte, texts []string) ([]byte, error) {
	start, next := len(b), 0
	plain := ""
	for _, part := range seg.parts {
		if part.argument == "" {
			b = append(b, part.literal...)
			plain += part.literal
			continue
		}
		text := texts[next]
		next++
		if hasControl(text) {
			return nil, errControl
		}
		b = appendEscaped(b, text)
		if len(seg.parts) == 1 {
			plain = text
		} else {
			plain += text
		}
	}
	switch {
	case len(b) == start && next > 0:
		return nil, errEmptySegment
	case next > 0:
		if err := astray(plain); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// astray says why a server that unescapes text, once or several times, and takes
// \ for / might be led to another path by it: by a . or .. segment, or by what
// looks like an escape and is none, which servers read each in their own way
// (leave it, drop it, refuse it), so that nobody knows what the rest is then. Such
// servers exist, and behind them are routes that the template does not mean. ";"
// is looked at too: some drop what follows it.
func astray(text string) error {
	for range 4 {
		if !strings.Contains(text, ".") && !strings.Contains(text, "%") {
			return nil
		}
		for step := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '/' || r == '\\' }) {
			step, _, _ = strings.Cut(step, ";")
			if step == "." || step == ".." {
				return errClimbs
			}
		}
		unescaped, ok := unescape(text)
		switch {
		case !ok:
			return errNoEscape
		case unescaped == text:
			return nil
		}
		text = unescaped
	}
	return errClimbs // escaped so often that nothing good is meant
}

// unescape replaces escapes by what they stand for. A % that nothing follows that
// could be meant as one (the "100%" of a person) stands for itself; ok is false
// when a letter or digit follows and it is none (%zz, %2, %u002e).
func unescape(text string) (plain string, ok bool) {
	if !strings.Contains(text, "%") {
		return text, true
	}
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '%' || i+1 == len(text) || !isAlphanumeric(text[i+1]) {
			b = append(b, text[i])
			continue
		}
		if i+2 == len(text) {
			return "", false
		}
		value, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b = append(b, byte(value))
		i += 2
	}
	return string(b), true
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// appendEscaped writes text with everything escaped but RFC 3986's unreserved
// characters, so that it means the same in a path segment and in a query.
func appendEscaped(b []byte, text string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(text) {
		c := text[i]
		switch {
		case isAlphanumeric(c),
			c == '-', c == '.', c == '_', c == '~':
			b = append(b, c)
		default:
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return b
}
