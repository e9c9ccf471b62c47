package injections

import (
	_ "embed"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Tags counts the tags of the boundary that a reader finds in a text who undoes
// escapes and takes one letter for another that looks like it: of all ways to read
// it the one that finds most. It knows nothing of how a sidecar looks for them.
func Tags(text string) (opening, closing int) {
	for _, reading := range readings(text) {
		for _, read := range []string{reading, skeleton(reading)} {
			if !nameInside.MatchString(read) {
				continue
			}
			opening = max(opening, len(openingTag.FindAllString(read, -1)))
			closing = max(closing, len(closingTag.FindAllString(read, -1)))
		}
	}
	return opening, closing
}

// nameInside is in every text with a tag: most have none.
var nameInside = regexp.MustCompile(`(?i)untrusted[\s\p{Z}_-]*output`)

// The tags, to a reader who does not care for case, spaces and lines.
var (
	openingTag = regexp.MustCompile(`(?i)<[\s\p{Z}]*untrusted[\s\p{Z}_-]*output`)
	closingTag = regexp.MustCompile(`(?i)<[\s\p{Z}]*[/\\]+[\s\p{Z}/\\]*untrusted[\s\p{Z}_-]*output`)
)

// readings are a text as it is, and with its escapes undone in each way, up to three
// times over.
func readings(text string) []string {
	all := []string{text}
	seen := map[string]bool{text: true}
	for done, depth := 0, 0; depth < 3; depth++ {
		for end := len(all); done < end; done++ {
			for _, undo := range []func(string) string{html.UnescapeString, unescapeJSON, unescapeURL} {
				if read := undo(all[done]); !seen[read] {
					seen[read] = true
					all = append(all, read)
				}
			}
		}
	}
	return all
}

var backslashes = regexp.MustCompile(`\\+(?:u\{[0-9a-fA-F]{1,6}\}|u[dD][89abAB][0-9a-fA-F]{2}\\+u[0-9a-fA-F]{4}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|[0-7]{2,3}|[nrtvf/])`)

func unescapeJSON(text string) string {
	return backslashes.ReplaceAllStringFunc(text, func(escape string) string {
		body := strings.TrimLeft(escape, `\`)
		switch body[0] {
		case 'n', 'r', 't', 'v', 'f':
			return " "
		case '/':
			return "/"
		case 'u', 'U', 'x':
			digits := strings.Trim(body[1:], "{}")
			if len(digits) > 8 { // a pair of surrogates
				if text, err := strconv.Unquote(`"\` + body[:5] + `"`); err == nil {
					return text
				}
				high, _ := strconv.ParseUint(body[1:5], 16, 32)
				low, _ := strconv.ParseUint(body[len(body)-4:], 16, 32)
				return string(rune((high-0xD800)<<10 + (low - 0xDC00) + 0x10000))
			}
			value, _ := strconv.ParseUint(digits, 16, 32)
			return string(rune(value))
		default:
			value, _ := strconv.ParseUint(body, 8, 32)
			return string(rune(value))
		}
	})
}

var percents = regexp.MustCompile(`(?:%[0-9a-fA-F]{2})+`)

func unescapeURL(text string) string {
	return percents.ReplaceAllStringFunc(text, func(escape string) string {
		if read, err := url.PathUnescape(escape); err == nil {
			return read
		}
		return escape
	})
}

//go:embed confusables.txt
var confusables string

// Confusables are the characters that look like one of the boundary's tags, and what
// each looks like, in lower case.
var Confusables = sync.OnceValue(func() map[rune]rune {
	table := make(map[rune]rune)
	for line := range strings.Lines(confusables) {
		code, like, found := strings.Cut(strings.TrimSpace(line), " ")
		if value, err := strconv.ParseInt(code, 16, 32); found && err == nil {
			table[rune(value)], _ = utf8.DecodeRuneInString(like)
		}
	}
	return table
})

// skeleton is a text as it looks: compatibility forms undone, accents left out, and
// each character that looks like one of our tag written as that.
func skeleton(text string) string {
	table := Confusables()
	look := func(text string) string {
		return strings.Map(func(r rune) rune {
			if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
				return -1
			}
			if like, ok := table[r]; ok {
				return like
			}
			return unicode.ToLower(r)
		}, text)
	}
	return look(norm.NFKD.String(look(text)))
}

// Unseen says what a text has that a reader does not see, or that is no text at all;
// empty when it has nothing of the kind.
func Unseen(text string) string {
	var last rune
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD") {
			return fmt.Sprintf("byte %d is no UTF-8", i)
		}
		if hides(r) && !spells(text[i:], r, last) {
			return fmt.Sprintf("%U at byte %d", r, i)
		}
		last = r
	}
	return ""
}

// hides reports whether a character has no look of its own, by Unicode's own lists.
func hides(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r >= 0x600 && r <= 0x605, r == 0x6DD, r == 0x70F, r == 0x890, r == 0x891, r == 0x8E2, r == 0x110BD, r == 0x110CD:
		return false // signs around Arabic and Kaithi numbers, which are drawn
	case r >= 0x13430 && r <= 0x1343F:
		return false // how hieroglyphs stand together: drawn as signs where they cannot
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Bidi_Control, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point)
}

// spells reports whether an invisible character is spelling where it is: between
// letters that join, behind a picture, in one of the flags that exist.
func spells(rest string, r, last rune) bool {
	switch {
	case r == 0x200C, r == 0x200D:
		return last > 0x5FF && last != 0x200C && last != 0x200D && !unicode.In(last, unicode.Latin, unicode.Greek, unicode.Cyrillic)
	case r == 0xFE0E, r == 0xFE0F:
		return last != 0xFE0E && last != 0xFE0F && (unicode.Is(unicode.S, last) || strings.HasPrefix(rest[3:], "\u20E3"))
	case r >= 0xE0000 && r <= 0xE007F:
		return last == 0x1F3F4 || last >= 0xE0061 && last <= 0xE007A
	default:
		return false
	}
}
