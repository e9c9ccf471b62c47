package schema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sidecall/sidecall/internal/tool"
)

// Misspelling is a word in a schema that is no keyword and is nearly one, so
// that JSON Schema ignores what was meant to be enforced.
type Misspelling struct {
	Pointer string // JSON pointer of the word
	Word    string
	Meant   string
}

// maxMisspellings bounds what is looked for in one schema.
const maxMisspellings = 100

// Misspellings finds the words that are nearly keywords, in no particular order,
// at most a hundred. Words that are far from any are annotations, as JSON Schema
// has it.
func (d Draft) Misspellings() []Misspelling {
	var found []Misspelling
	eachKeyword(d.root, make([]string, 0, 16), func(word string, at []string) {
		if len(found) == maxMisspellings || knownWords[word] || strings.HasPrefix(word, "x-") {
			return
		}
		if meant := nearestKeyword(word); meant != "" {
			found = append(found, Misspelling{pointerTo("", at...), word, meant})
		}
	})
	return found
}

// Places lists, sorted, the JSON pointers of the keywords that are among some.
func (d Draft) Places(keywords []string) []string {
	var found []string
	eachKeyword(d.root, make([]string, 0, 16), func(word string, at []string) {
		if slices.Contains(keywords, word) {
			found = append(found, pointerTo("", at...))
		}
	})
	slices.Sort(found)
	return found
}

// enforced are the keywords that decide what is valid.
var enforced = []string{
	"type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
	"maxLength", "minLength", "pattern", "format", "items", "prefixItems", "additionalItems", "unevaluatedItems",
	"maxItems", "minItems", "uniqueItems", "contains", "maxContains", "minContains",
	"maxProperties", "minProperties", "required", "properties", "patternProperties", "additionalProperties",
	"unevaluatedProperties", "propertyNames", "dependentRequired", "dependentSchemas", "dependencies",
	"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref", "$defs", "definitions",
}

// knownWords are all keywords of the drafts, those of OpenAPI, and the
// annotations that generators write: none is a slip of the keys.
var knownWords = words(enforced,
	"$schema", "$id", "id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary", "$comment",
	"title", "description", "default", "deprecated", "readOnly", "writeOnly", "examples", "contentEncoding", "contentMediaType", "contentSchema",
	"example", "nullable", "discriminator", "xml", "externalDocs",
	"enumNames", "enumDescriptions", "markdownDescription", "errorMessage", "defaultSnippets", "propertyOrdering", "order", "propertyOrder", "formats", "patterns")

func words(list []string, more ...string) map[string]bool {
	out := make(map[string]bool, len(list)+len(more))
	for _, word := range append(slices.Clone(list), more...) {
		out[word] = true
	}
	return out
}

// nearestKeyword is the keyword that a word was meant to be; empty for a word of
// the author's own. Short words are near many others, so of those only another
// case, two letters swapped and an s too many or too few count: cost is not const.
func nearestKeyword(word string) string {
	if len(word) > tool.MaxSpelling {
		return ""
	}
	plain := plainWord(word)
	for _, keyword := range enforced {
		if plain == plainWord(keyword) {
			return keyword
		}
	}
	best, least := "", tool.MaxSpelling
	for _, keyword := range enforced {
		meant := plainWord(keyword)
		if abs(len(plain)-len(meant)) > 3 {
			continue
		}
		d := tool.EditDistance([]rune(plain), []rune(meant))
		if d < least && d <= slack(plain, meant) {
			best, least = keyword, d
		}
	}
	return best
}

// slack is how many slips of the keys a keyword may suffer.
func slack(word, keyword string) int {
	switch n := len(keyword); {
	case n >= 16:
		return 3
	case n >= 9:
		return 2
	case n >= 6:
		return 1
	case n >= 4 && len(word) == n && sameLetters(word, keyword):
		return 2
	case n >= 4 && (word == keyword+"s" || word+"s" == keyword):
		return 1
	default:
		return 0
	}
}

func sameLetters(a, b string) bool {
	x, y := []byte(a), []byte(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

func plainWord(s string) string {
	return strings.NewReplacer("_", "", "-", "", "$", "", " ", "").Replace(strings.ToLower(s))
}

func abs(n int) int { return max(n, -n) }

// Where the schemas are in a schema: members of an object, items of a list, or
// the value itself.
var (
	schemasByName = words([]string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
	schemaLists   = words([]string{"allOf", "anyOf", "oneOf", "prefixItems", "items"})
	schemaValues  = words([]string{
		"items", "additionalItems", "unevaluatedItems", "contains", "additionalProperties", "unevaluatedProperties",
		"propertyNames", "not", "if", "then", "else", "contentSchema",
	})
)

// eachKeyword tells every word that stands where a keyword stands, and the tokens
// of the JSON pointer that leads there, which are overwritten by the next.
func eachKeyword(s any, at []string, tell func(word string, at []string)) {
	obj, ok := s.(map[string]any)
	if !ok || len(at) > 2*MaxDepth {
		return
	}
	for word, value := range obj {
		here := append(at[:len(at):cap(at)], word) //nolint:gocritic // the array is shared: who is told keeps none of it
		tell(word, here)
		switch value := value.(type) {
		case map[string]any:
			if schemasByName[word] {
				for name, sub := range value {
					eachKeyword(sub, append(here, name), tell)
				}
			} else if schemaValues[word] {
				eachKeyword(value, here, tell)
			}
		case []any:
			if schemaLists[word] {
				for i, sub := range value {
					eachKeyword(sub, append(here, strconv.Itoa(i)), tell)
				}
			}
		}
	}
}
