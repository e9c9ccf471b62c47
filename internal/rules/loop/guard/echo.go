package guard

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxSaid is how much is looked at of what an error says, in bytes.
	maxSaid = 4 << 10
	// maxValues is how many arguments are looked for in it, down to maxDepth; longer
	// ones than maxValue, in bytes, are not.
	maxValues = 64
	maxValue  = 256
	maxDepth  = 8
	// leastLetters is how many an error must have of its own to be known by them.
	leastLetters = 8
	// An id that a machine has made up has this many bytes and digits at least, or
	// is a number of so many digits.
	idBytes, idDigits, longNumber = 16, 4, 10
)

// Where something was taken out: opens, the path of the argument, closes.
const opens, closes = '\x01', '\x02'

// ownWords is what is said but for what it repeats of the arguments; all of it when
// fewer letters than least would be left. Its cost is bounded: maxValues passes over
// maxSaid bytes.
func ownWords(said string, values []value, least int) string {
	said = said[:min(len(said), maxSaid)]
	own := said
	for _, v := range values {
		own = replaceWord(own, v.text, string(opens)+v.path+string(closes))
	}
	own = withoutIDs(own)
	if letters(own) < least {
		return said
	}
	return own
}

// valuesOf returns the texts and numbers in args, the longest first, as one may be a
// part of another.
func valuesOf(args any) []value {
	values := collect(nil, "", args, 0)
	slices.SortStableFunc(values, func(a, b value) int { return cmp.Compare(len(b.text), len(a.text)) })
	return values
}

// value is an argument as it may turn up in a text, and where it stands.
type value struct{ text, path string }

// collect appends the texts and numbers in v, members in the order of their names.
// Places in a list have no path of their own.
func collect(values []value, path string, v any, depth int) []value {
	if len(values) >= maxValues || depth > maxDepth {
		return values
	}
	switch v := v.(type) {
	case string:
		if v = strings.TrimSpace(v); v != "" && len(v) <= maxValue {
			values = append(values, value{v, path})
		}
	case json.Number:
		if len(v) <= maxValue {
			values = append(values, value{string(v), path})
		}
	case float64:
		values = append(values, value{strconv.FormatFloat(v, 'f', -1, 64), path})
	case []any:
		for _, item := range v[:min(len(v), maxValues)] {
			values = collect(values, path, item, depth+1)
		}
	case map[string]any:
		if len(v) > maxValues {
			return values
		}
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			values = collect(values, path+"."+name, v[name], depth+1)
		}
	}
	return values
}

// replaceWord replaces word in text where nothing is joined to it (7 in "no 7", not
// in "17"), as long as the text does not grow beyond four times maxSaid.
func replaceWord(text, word, by string) string {
	var out strings.Builder
	done := 0 // what comes before it is in out
	for from := 0; out.Len()+len(text)-done <= 4*maxSaid; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			break
		}
		begin := from + i
		end := begin + len(word)
		from = begin + 1
		if begin > 0 && isWord(text[begin-1]) || end < len(text) && isWord(text[end]) {
			continue
		}
		out.WriteString(text[done:begin])
		out.WriteString(by)
		done, from = end, end
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || c >= 0x80 }

func isWord(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' }

// withoutIDs takes out what machines make up for one error alone:
// req_8f14e45fceea167a, a UUID, 2026-11-23T07:07:51Z, 1732345678901.
func withoutIDs(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		end := i
		digits := 0
		for ; end < len(text) && (isWord(text[end]) || text[end] == '-' || text[end] == ':' && digits > 0); end++ {
			if isDigit(text[end]) {
				digits++
			}
		}
		switch length := end - i; {
		case text[i] == opens:
			end = i + strings.IndexByte(text[i:], closes) + 1
			if end <= i { // it closes nowhere: the tool's own byte
				end = len(text)
			}
			out.WriteString(text[i:end])
		case length == 0:
			end = i + 1
			out.WriteByte(text[i])
		case length >= idBytes && digits >= idDigits || digits == length && length >= longNumber:
			out.WriteByte(opens)
			out.WriteByte(closes)
		default:
			out.WriteString(text[i:end])
		}
		i = end
	}
	return out.String()
}

// letters counts what is left of a text in which something was replaced.
func letters(own string) (n int) {
	inside := false
	for _, c := range []byte(own) {
		switch {
		case c == opens:
			inside = true
		case c == closes:
			inside = false
		case !inside && isLetter(c):
			n++
		}
	}
	return n
}
