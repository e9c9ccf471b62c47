package schema

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/sidecall/sidecall/internal/tool"
)

// location is the way from the arguments to one value: property names and
// decimal array indexes, as the validator reports them.
type location []string

// child returns the location of a member. It never shares memory with l, which
// several findings may extend.
func (l location) child(token string) location {
	out := make(location, len(l)+1)
	copy(out, l)
	out[len(l)] = token
	return out
}

// key is l as a map key.
func (l location) key() string { return strings.Join(l, "\x00") }

func (l location) parent() location { return l[:len(l)-1] }

func (l location) last() string {
	if len(l) == 0 {
		return ""
	}
	return l[len(l)-1]
}

func (l location) equal(m location) bool { return slices.Equal(l, m) }

// under reports whether l is m or inside m.
func (l location) under(m location) bool {
	return len(l) >= len(m) && l[:len(m)].equal(m)
}

// field writes l as google.rpc.BadRequest writes paths: a.b[2]["x.y"]. Whether
// a token is an index depends on the value it indexes.
func (l location) field(root any) string {
	var b strings.Builder
	v := root
	for _, token := range l {
		if isArray(v) {
			b.WriteString("[" + token + "]")
		} else {
			writeName(&b, token)
		}
		v, _ = location{token}.at(v)
	}
	return b.String()
}

// FieldPath splits a field, as errors name it, into the names and the decimal
// indexes that lead to the value: a.b[2]["x.y"] is a, b, 2, x.y. What is written
// otherwise, by an upstream say, is read as far as it makes sense.
func FieldPath(field string) []string {
	var path []string
	for rest := field; rest != ""; {
		if name, after, ok := quotedName(rest); ok {
			path, rest = append(path, name), after
			continue
		}
		end := strings.IndexAny(rest, ".[]")
		switch {
		case end < 0:
			return append(path, rest)
		case end == 0:
			end = 1
		default:
			path = append(path, rest[:end])
		}
		rest = rest[end:]
	}
	return path
}

// quotedName reads ["x.y"] at the start of text.
func quotedName(text string) (name, after string, ok bool) {
	inside, odd := strings.CutPrefix(text, "[")
	if !odd || !strings.HasPrefix(inside, `"`) {
		return "", text, false
	}
	dec := json.NewDecoder(strings.NewReader(inside))
	if dec.Decode(&name) != nil {
		return "", text, false
	}
	return name, strings.TrimPrefix(inside[dec.InputOffset():], "]"), true
}

func writeName(b *strings.Builder, name string) {
	if !plainName(name) {
		b.WriteString("[" + quoted(name) + "]")
		return
	}
	if b.Len() > 0 {
		b.WriteByte('.')
	}
	b.WriteString(name)
}

// plainName reports whether a name needs no quotes in a path.
func plainName(name string) bool {
	for _, r := range name {
		if r != '_' && r != '-' && r != '$' && r != '@' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return false
		}
	}
	return name != ""
}

// At is the value to which names and indexes lead; nil where they lead nowhere.
func At(root any, path []string) any {
	v, _ := location(path).at(root)
	return v
}

// at returns the value at l.
func (l location) at(root any) (v any, present bool) {
	v = root
	for _, token := range l {
		switch parent := v.(type) {
		case map[string]any:
			next, ok := parent[token]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(parent) {
				return nil, false
			}
			v = parent[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// quoted is s as a JSON string, without the HTML escapes that make a message
// unreadable. Invalid UTF-8 becomes U+FFFD.
func quoted(s string) string { return string(tool.AppendQuoted(nil, s)) }
