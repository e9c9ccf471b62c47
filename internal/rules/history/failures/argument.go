package failures

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/sidecall/sidecall/internal/tool"
)

// argument is one argument as an entry keeps it.
type argument struct {
	name string
	text string // JSON, shortened
	sum  uint32 // of the whole text, where it is shortened; else 0
}

// rest is the name under which arguments stand together for which there is no room.
const rest = ""

// summary is what is kept of arguments, in the order of their names.
func summary(args map[string]any) []argument {
	var out []argument
	left := maxValues
	others, more := uint32(0), false
	for _, name := range slices.Sorted(maps.Keys(args)) {
		text := compact(args[name])
		a := argument{name: tool.ShortenBytes(name, maxName), text: tool.ShortenBytes(text, maxValue)}
		if a.text != text || a.name != name {
			a.sum = nonzero(sumOf(sumOf(0, name), text))
		}
		if size := len(a.name) + len(a.text); size > left || len(out) == maxArguments-1 || name == rest {
			more = true
			others = sumOf(sumOf(others, name), text)
			continue
		}
		left -= len(a.name) + len(a.text)
		out = append(out, a)
	}
	if more {
		out = append(out, argument{name: rest, sum: nonzero(others)})
	}
	return out
}

// compact is v as JSON in one line, members in the order of their names.
func compact(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return "?" // no JSON: a number that is none, from whoever decoded it
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// sumOf goes on with a sum, which tells texts apart and is no secret keeper: what is
// summed up was redacted before.
func sumOf(before uint32, text string) uint32 {
	return crc32.Update(before, castagnoli, append([]byte(text), 0))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func nonzero(sum uint32) uint32 { return max(sum, 1) }

// maxDifferences bounds what is told of one attempt.
const maxDifferences = 4

// differences says how the arguments of an earlier attempt differ from those of
// this one; none where they are the same.
func differences(then, now []argument) []string {
	var out []string
	for _, a := range then {
		switch b, has := find(now, a.name); {
		case a.name == rest && (!has || a != b), a.name != rest && has && a != b && a.text == b.text:
			out = append(out, "another "+nameOf(a))
		case has && a == b:
		case has:
			out = append(out, fmt.Sprintf("%s %s (now %s)", nameOf(a), a.text, b.text))
		default:
			out = append(out, fmt.Sprintf("%s %s (now left out)", nameOf(a), a.text))
		}
	}
	var lacks []string
	for _, b := range now {
		if _, had := find(then, b.name); !had {
			lacks = append(lacks, nameOf(b))
		}
	}
	if len(lacks) > 0 {
		out = append(out, "no "+strings.Join(lacks[:min(len(lacks), maxDifferences)], ", no "))
	}
	if more := len(out) - maxDifferences; more > 0 {
		out = append(out[:maxDifferences], tool.Count(more, "more difference"))
	}
	return out
}

func nameOf(a argument) string {
	if a.name == rest {
		return "value of the other arguments"
	}
	odd := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' }
	if strings.ContainsFunc(a.name, odd) {
		return strconv.Quote(a.name) // it may say what it likes
	}
	return a.name
}

func find(list []argument, name string) (argument, bool) {
	i := slices.IndexFunc(list, func(a argument) bool { return a.name == name })
	if i < 0 {
		return argument{}, false
	}
	return list[i], true
}

// number is the number that an argument is.
func (a argument) number() (float64, bool) {
	n, err := strconv.ParseFloat(a.text, 64)
	return n, err == nil && a.sum == 0
}
