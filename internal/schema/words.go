package schema

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/sidecall/sidecall/internal/tool"
)

// printer is for the library's own sentences.
var printer = message.NewPrinter(language.English)

// articled puts an article before the name of a JSON type.
func articled(name string) string {
	switch {
	case name == "null":
		return name
	case name != "" && strings.ContainsRune("aeiou", rune(name[0])):
		return "an " + name
	default:
		return "a " + name
	}
}

// oneLine makes a description of a schema fit for a hint: one line, short,
// without the phrases that programs look for.
func oneLine(s string, limit int) string {
	s = strings.ToValidUTF8(head8(s, 16*limit), "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	s = strings.NewReplacer("e.g. ", "such as ", "Did you mean", "Is it").Replace(s)
	return tool.Shorten(strings.TrimRight(strings.Join(strings.Fields(s), " "), "."), limit)
}

// head8 is the start of s, cut between runes, a little longer than limit bytes
// so that the cut shows.
func head8(s string, limit int) string {
	if len(s) <= limit+utf8.UTFMax {
		return s
	}
	n := limit + utf8.UTFMax
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func joinOr(list []string) string {
	last := len(list) - 1
	if last < 1 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:last], ", ") + " or " + list[last]
}

func didYouMean(s string) string { return "Did you mean " + quoted(s) + "?" }
