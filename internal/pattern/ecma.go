package pattern

import (
	"fmt"
	"strconv"
	"strings"
)

// ECMA reads an expression as JSON Schema means it: ECMA-262's. Go's are matched
// in linear time, which is what one wants for text that a stranger sends. The
// dialects meet in nearly everything that schemas use, and what differs is
// translated where that is exact:
//
//   - \uXXXX, \cX, [^] and repetitions above Go's limit of 1,000;
//   - look-aheads right behind a leading ^, which generated schemas use for
//     email addresses and passwords: ^(?!A)(?=B)C matches exactly where ^C and
//     ^B match and ^A does not.
//
// Anything else that Go cannot do is refused. The error is one clause.
func ECMA(source string) (*Pattern, error) {
	if len(source) > MaxLength {
		return nil, fmt.Errorf("longer than %d bytes", MaxLength)
	}
	p := &Pattern{source: source}
	var err error
	if p.body, err = ecma(source); err == nil {
		p.size = p.body.size
		return p, nil
	} else if !strings.Contains(source, "(?=") && !strings.Contains(source, "(?!") {
		return nil, err
	}
	rest, err := p.lookaheads(source)
	if err != nil {
		return nil, err
	}
	if p.body, err = ecma("^" + rest); err != nil {
		return nil, err
	}
	if p.size += p.body.size; p.size > MaxInstructions {
		return nil, tooLarge()
	}
	return p, nil
}

// lookaheads takes the look-aheads behind a leading ^ and returns what follows.
func (p *Pattern) lookaheads(source string) (rest string, err error) {
	unsupported := fmt.Errorf("a look-ahead is supported only directly behind a leading ^, without | beside it: %s", source)
	rest, anchored := strings.CutPrefix(source, "^")
	if !anchored {
		return "", unsupported
	}
	for strings.HasPrefix(rest, "(?=") || strings.HasPrefix(rest, "(?!") {
		end := closingParen(rest)
		if end < 0 {
			return "", fmt.Errorf("missing closing ): %s", source)
		}
		one, err := ecma("^(?:" + rest[3:end] + ")")
		if err != nil {
			return "", err
		}
		if rest[2] == '=' {
			p.ahead = append(p.ahead, one)
		} else {
			p.never = append(p.never, one)
		}
		if p.size += one.size; p.size > MaxInstructions {
			return "", tooLarge()
		}
		rest = rest[end+1:]
	}
	if topLevelAlternative(rest) || strings.HasPrefix(rest, "*") || strings.HasPrefix(rest, "?") || strings.HasPrefix(rest, "{") {
		return "", unsupported
	}
	return rest, nil
}

// closingParen is the index of the ) that closes the ( at index 0; -1 when
// there is none.
func closingParen(s string) int {
	found := -1
	scan(s, func(i, depth int, c byte) bool {
		if c == ')' && depth == 0 {
			found = i
		}
		return found < 0
	})
	return found
}

func topLevelAlternative(s string) bool {
	found := false
	scan(s, func(_, depth int, c byte) bool {
		found = found || c == '|' && depth == 0
		return !found
	})
	return found
}

// scan walks over the syntax characters outside classes and escapes, with the
// depth of groups around each.
func scan(s string, visit func(i, depth int, c byte) bool) {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
			continue
		case '[':
			i += classLen(s[i:]) - 1
			continue
		case ')':
			depth--
		}
		if !visit(i, depth, s[i]) {
			return
		}
		if s[i] == '(' {
			depth++
		}
	}
}

// classLen is the length of the character class at the start of s.
func classLen(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case ']':
			return i + 1
		}
	}
	return len(s)
}

// ecma reads an expression without look-aheads. What Go takes as it stands means
// the same, but for [^].
func ecma(source string) (part, error) {
	if !strings.Contains(source, "[^]") {
		if p, err := newPart(source); err == nil {
			return p, nil
		}
	}
	text, err := translate(source)
	if err != nil {
		return part{}, err
	}
	return newPart(text)
}

// translate rewrites ECMA-262 syntax that Go spells otherwise.
func translate(s string) (string, error) {
	var out strings.Builder
	var groups []int // where each open group starts in out
	atom := 0        // where the last atom starts in out
	for i := 0; i < len(s); {
		if out.Len() > maxText { // portions within portions
			return "", tooLarge()
		}
		start := out.Len()
		n := 1
		switch s[i] {
		case '\\':
			n = writeEscape(&out, s[i:])
			atom = start
		case '[':
			n = classLen(s[i:])
			writeClass(&out, s[i:i+n])
			atom = start
		case '(':
			groups = append(groups, start)
			out.WriteByte('(')
		case ')':
			out.WriteByte(')')
			if len(groups) > 0 {
				atom, groups = groups[len(groups)-1], groups[:len(groups)-1]
			}
		case '{':
			n = writeRepeat(&out, s[i:], atom)
		default:
			out.WriteByte(s[i])
			if s[i] < 0x80 || s[i] >= 0xC0 { // not in the middle of a rune
				atom = start
			}
		}
		i += n
	}
	return out.String(), nil
}

// writeEscape writes the escape at the start of s and returns its length.
func writeEscape(out *strings.Builder, s string) int {
	switch {
	case len(s) >= 6 && s[1] == 'u' && isHex(s[2:6]):
		out.WriteString(`\x{` + s[2:6] + `}`)
		return 6
	case len(s) >= 4 && s[1] == 'u' && s[2] == '{':
		if end := strings.IndexByte(s, '}'); end > 0 && isHex(s[3:end]) {
			out.WriteString(`\x` + s[2:end+1])
			return end + 1
		}
	case len(s) >= 3 && s[1] == 'c':
		fmt.Fprintf(out, `\x{%02x}`, s[2]&31)
		return 3
	}
	n := min(2, len(s))
	out.WriteString(s[:n])
	return n
}

func isHex(s string) bool {
	_, err := strconv.ParseUint(s, 16, 32)
	return err == nil
}

func writeClass(out *strings.Builder, class string) {
	switch class {
	case "[^]":
		out.WriteString(`[\s\S]`)
		return
	case "[]":
		out.WriteString(`[^\s\S]`)
		return
	}
	for i := 0; i < len(class); {
		if class[i] == '\\' {
			i += writeEscape(out, class[i:])
			continue
		}
		out.WriteByte(class[i])
		i++
	}
}

// Go's own limit of one repetition, and ours of their sum.
const (
	maxRepeat      = 1000
	maxTotalRepeat = 20_000
)

// writeRepeat writes the {m,n} at the start of s, behind the atom that starts
// at index atom of out, in portions that Go accepts. It returns the length of
// the source.
func writeRepeat(out *strings.Builder, s string, atom int) int {
	end := strings.IndexByte(s, '}')
	lowText, highText, ranged := "", "", false
	if end > 0 {
		lowText, highText, ranged = strings.Cut(s[1:end], ",")
	}
	low, err := strconv.Atoi(lowText)
	high, errHigh := strconv.Atoi(highText)
	if !ranged {
		high, errHigh = low, nil
	}
	open := ranged && highText == ""
	if err != nil || (errHigh != nil && !open) || max(low, high) <= maxRepeat || max(low, high) > maxTotalRepeat {
		out.WriteByte('{')
		return 1
	}
	what := out.String()[atom:]
	kept := out.String()[:atom]
	out.Reset()
	out.WriteString(kept)
	for left := low; left > 0; left -= maxRepeat {
		fmt.Fprintf(out, "%s{%d}", what, min(left, maxRepeat))
	}
	if open {
		out.WriteString(what + "*")
	} else if high > low {
		writeUpTo(out, what, high-low)
	}
	return end + 1
}

// writeUpTo writes up to n of something. Were it x{0,1000}x{0,1000}…, the matcher
// would not know in which portion it is, and follow thousands of ways: so it is a
// chain of whole portions, each of which may be the last, and one more behind it.
func writeUpTo(out *strings.Builder, what string, n int) {
	whole, rest := n/maxRepeat, n%maxRepeat
	chain := func(links int) {
		out.WriteString(strings.Repeat(fmt.Sprintf("(?:%s{%d}", what, maxRepeat), links) + strings.Repeat(")?", links))
	}
	switch {
	case whole == 0:
		fmt.Fprintf(out, "%s{0,%d}", what, rest)
	case rest == 0:
		chain(whole - 1)
		fmt.Fprintf(out, "%s{0,%d}", what, maxRepeat)
	default:
		out.WriteString("(?:")
		chain(whole - 1)
		fmt.Fprintf(out, "%s{0,%d}|", what, maxRepeat-1)
		out.WriteString(strings.Repeat(fmt.Sprintf("%s{%d}", what, maxRepeat), whole))
		fmt.Fprintf(out, "%s{0,%d})", what, rest)
	}
}
