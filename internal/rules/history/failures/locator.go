package failures

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// locators are the last words of the names of arguments that name something.
var locators = wordSet(
	"path paths file files filename filepath dir directory folder uri url urls href link endpoint host hostname domain " +
		"bucket table database db repo repository branch queue topic channel resource target source destination src dst to recipient " +
		"id ids uuid guid key slug handle sku email username number",
)

// addresses of the request itself, not of what it is about.
var notLocators = wordSet(
	"requestid traceid spanid correlationid sessionid idempotencykey apikey accesskey secretkey privatekey publickey clientid " +
		"pagenumber linenumber number",
)

func wordSet(text string) map[string]bool {
	out := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		out[word] = true
	}
	return out
}

// names reports whether an argument of that name names something.
func names(name string) bool {
	words := wordsOf(name)
	return len(words) > 0 && locators[words[len(words)-1]] && !notLocators[strings.Join(words, "")]
}

// wordsOf are the words of snake_case, kebab-case and camelCase, in lower case.
func wordsOf(name string) []string {
	var out []string
	var word []rune
	lower := false
	for _, r := range name {
		letter := unicode.IsLetter(r) || unicode.IsDigit(r)
		if len(word) > 0 && (!letter || unicode.IsUpper(r) && lower) {
			out, word = append(out, string(word)), word[:0]
		}
		if letter {
			word = append(word, unicode.ToLower(r))
		}
		lower = unicode.IsLower(r)
	}
	if len(word) > 0 {
		out = append(out, string(word))
	}
	return out
}

// fromNames takes the names that name something.
func fromNames(list []string) [][]string {
	var out [][]string
	for _, name := range list {
		if len(out) < maxPaths && names(name) {
			out = append(out, []string{name})
		}
	}
	return out
}

// contents are required strings that say what is to be there, not where.
var contents = wordSet("content contents text body data message comment description html markdown code patch diff value reason")

// fromSchema takes the properties of a schema that say what a call is about.
func fromSchema(text []byte) [][]string {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	_ = json.Unmarshal(text, &s) // a schema that is none has no properties
	optional := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		if !slices.Contains(s.Required, name) {
			optional = append(optional, name)
		}
	}
	slices.Sort(optional)
	for _, list := range [][]string{s.Required, optional} {
		if found := fromNames(list); len(found) > 0 {
			return found
		}
	}
	var out [][]string
	for _, name := range s.Required {
		words := wordsOf(name)
		about := len(words) > 0 && !contents[words[len(words)-1]]
		if about && len(out) < maxPaths && isString(s.Properties[name]) {
			out = append(out, []string{name})
		}
	}
	return out
}

func isString(schema json.RawMessage) bool {
	var s struct {
		Type any   `json:"type"`
		Enum []any `json:"enum"`
	}
	return json.Unmarshal(schema, &s) == nil && s.Type == "string" && s.Enum == nil
}
