package output

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxPath bounds the text of a path, in bytes.
const MaxPath = 1024

// Path leads from a JSON text to one value in it: the part of JSONPath (RFC 9535) that
// names one place, $ and then any of .name, ["name"], ['name'] and [n].
type Path struct {
	text  string
	steps []step
}

type step struct {
	name  string // of a member
	index int    // of an item; -1 for a member
	end   int    // where the path up to here ends, in bytes of its text
}

// ParsePath reads a path. The error says at which character what was expected.
func ParsePath(text string) (Path, error) {
	if len(text) > MaxPath {
		return Path{}, fmt.Errorf("a path has at most %d bytes, and this one %d", MaxPath, len(text))
	}
	p := Path{text: text}
	if !strings.HasPrefix(text, "$") {
		return p, p.wrong(0, "$, which is the output as a whole")
	}
	for at := 1; at < len(text); {
		next, err := p.step(at)
		if err != nil {
			return p, err
		}
		p.steps = append(p.steps, next)
		at = next.end
	}
	return p, nil
}

// step reads the step that begins at a byte of the text.
func (p *Path) step(at int) (step, error) {
	rest := p.text[at:]
	switch {
	case strings.HasPrefix(rest, ".."):
		return step{}, p.wrong(at+1, "a name: a path leads to one place, so .. is not served")
	case rest[0] == '.':
		return p.member(at + 1)
	case strings.HasPrefix(rest, `["`), strings.HasPrefix(rest, `['`):
		return p.quoted(at + 1)
	case rest[0] == '[':
		return p.item(at + 1)
	}
	return step{}, p.wrong(at, "the end, or a step: .name, [\"name\"] or [n]")
}

// member reads .name, behind its dot.
func (p *Path) member(at int) (step, error) {
	end := at
	for end < len(p.text) {
		r, size := utf8.DecodeRuneInString(p.text[end:])
		if !inName(r, end == at) {
			break
		}
		end += size
	}
	if end == at {
		return step{}, p.wrong(at, "a name of letters, digits and _; any other name is written [\"name\"], and * is not served")
	}
	return step{name: p.text[at:end], index: -1, end: end}, nil
}

// inName reports what a name may have that stands without quotes (RFC 9535, 2.5.1.1).
func inName(r rune, first bool) bool {
	switch {
	case r == utf8.RuneError:
		return false
	case r == '_', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= utf8.RuneSelf:
		return true
	}
	return r >= '0' && r <= '9' && !first
}

// quoted reads ["name"], behind its bracket.
func (p *Path) quoted(at int) (step, error) {
	end := at + 1
	for ; end < len(p.text) && p.text[end] != p.text[at]; end++ {
		if p.text[end] == '\\' {
			end++
		}
	}
	if end >= len(p.text) {
		return step{}, p.wrong(len(p.text), "the quote that ends the name")
	}
	name, err := jsontext.AppendUnquote(nil, inDoubleQuotes(p.text[at:end+1]))
	if err != nil {
		return step{}, p.wrong(at, "a name in quotes, with the escapes of JSON")
	}
	if !strings.HasPrefix(p.text[end+1:], "]") {
		return step{}, p.wrong(end+1, "]")
	}
	return step{name: string(name), index: -1, end: end + 2}, nil
}

// inDoubleQuotes is a name in single quotes as JSON writes it.
func inDoubleQuotes(name string) string {
	if name[0] == '"' {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 1; i < len(name)-1; i++ {
		switch {
		case name[i] == '"':
			b.WriteString(`\"`)
		case name[i] == '\\' && name[i+1] == '\'':
			i++
			b.WriteByte('\'')
		case name[i] == '\\':
			b.WriteString(name[i : i+2])
			i++
		default:
			b.WriteByte(name[i])
		}
	}
	b.WriteByte('"')
	return b.String()
}

// item reads [n], behind its bracket.
func (p *Path) item(at int) (step, error) {
	end := at
	for end < len(p.text) && p.text[end] >= '0' && p.text[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(p.text[at:end], 10, 32)
	if err != nil || end > at+1 && p.text[at] == '0' {
		return step{}, p.wrong(at, "the number of an item, from 0 on, or a name in quotes; *, filters, slices and numbers from the end are not served")
	}
	if !strings.HasPrefix(p.text[end:], "]") {
		return step{}, p.wrong(end, "]")
	}
	return step{index: int(n), end: end + 1}, nil
}

// wrong says what was expected at a byte of the text.
func (p *Path) wrong(at int, expected string) error {
	return fmt.Errorf("at character %d of the path: expected %s", utf8.RuneCountInString(p.text[:min(at, len(p.text))])+1, expected)
}
