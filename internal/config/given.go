package config

import (
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// longValue is the length, in bytes, from which a value is looked for in whatever
	// is said: shorter ones turn up by chance.
	longValue = 8
	// cutValue is how much of a value is known again when its end was cut off.
	cutValue = 16
)

// given is what a reference stands for in a setting.
type given struct {
	at    Problem // where it is set
	name  string
	value Secret
}

// Refers reports that there are references.
func (s *Source) Refers() bool { return len(s.given) > 0 }

// Mask returns a text with references in the place of what they stand for, as far as
// that is not too short to be known again.
func (s *Source) Mask(text string) string {
	return masked(s.given, text, func(given) bool { return false })
}

// MaskAt is Mask of what is said of a part of the file: there short values count too.
// The path is that of a Problem; of the whole file it is empty.
func (s *Source) MaskAt(path, text string) string { return maskedAt(s.given, path, text) }

func maskedAt(all []given, path, text string) string {
	return masked(all, text, func(g given) bool { return path == "" || Below(g.at.Path, path) })
}

func masked(all []given, text string, meant func(given) bool) string {
	for _, g := range all {
		short := meant(g)
		for _, part := range g.parts() {
			if short || len(part) >= longValue {
				text = replaced(text, part, g.name)
			}
		}
	}
	return text
}

// parts are the value, and its lines, as they are and as they are quoted.
func (g given) parts() (parts []string) {
	add := func(text string) {
		if text = strings.TrimSpace(text); text == "" {
			return
		}
		parts = append(parts, text)
		if quoted := strconv.Quote(text); quoted[1:len(quoted)-1] != text {
			parts = append(parts, quoted[1:len(quoted)-1])
		}
	}
	value := g.value.Reveal()
	add(value)
	if strings.Contains(value, "/") {
		add(filepath.Clean(value)) // as a part of a path has it
	}
	if strings.ContainsAny(value, "\r\n") {
		for line := range strings.Lines(value) {
			add(line)
		}
	}
	return parts
}

// replaced puts a name in the place of a part of a value: where it stands whole, and
// where its end was cut off. A short one counts only where it is no part of a word.
func replaced(text, part, name string) string {
	var b strings.Builder
	written := 0
	start := part[:min(len(part), cutValue)]
	for at := strings.Index(text, start); at >= 0; {
		end := at + len(start)
		for end < len(text) && end-at < len(part) && text[end] == part[end-at] {
			end++
		}
		whole := end-at == len(part) && (len(part) >= longValue || isApart(text, at, end))
		if next := end; whole || end-at < len(part) && isCut(text[end:]) {
			b.WriteString(text[written:at])
			b.WriteString(name)
			written = next
		} else {
			end = at + 1
		}
		more := strings.Index(text[end:], start)
		if more < 0 {
			break
		}
		at = end + more
	}
	b.WriteString(text[written:])
	return b.String()
}

// isCut reports that a text goes on as one does whose end was cut off.
func isCut(rest string) bool {
	return rest == "" || rest[0] == '"' || strings.HasPrefix(rest, "…") || strings.HasPrefix(rest, "...")
}

// isApart reports that no letter or digit stands on either side.
func isApart(text string, from, to int) bool {
	return (from == 0 || !isWordByte(text[from-1])) && (to == len(text) || !isWordByte(text[to]))
}

func isWordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}
