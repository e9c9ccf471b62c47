package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// minText is the shortest text, in bytes, that New takes for a secret at all; what
// sensible secrets are is the caller's to say.
const minText = 4

// span is where a secret stands.
type span struct{ from, to int }

// form is one spelling of a secret.
type form struct {
	text []byte
	// base64: the characters around it may be made of some bits of the secret too.
	base64 bool
}

// formsOf lists the forms of all secrets, each once.
func formsOf(secrets []string) []form {
	var forms []form
	seen := make(map[string]bool)
	add := func(text string, encoded bool) {
		for _, spelt := range spellings(text) {
			if len(spelt) >= minText && !seen[spelt] {
				seen[spelt] = true
				forms = append(forms, form{[]byte(spelt), encoded})
			}
		}
	}
	for _, secret := range secrets {
		if len(secret) < minText {
			continue
		}
		add(secret, false)
		for _, encoded := range inBase64(secret) {
			add(encoded, true)
		}
	}
	return forms
}

// inBase64 lists what of a text is the same in every base64 text that holds it:
// it begins at the first, second or third byte of a group of three, and what
// stands beside it changes the first and the last character. Alone with its
// padding it is the first of them.
func inBase64(text string) (out []string) {
	for before := range 3 {
		padded := make([]byte, before+len(text))
		copy(padded[before:], text)
		// Characters of six bits: the first that has none of the bytes before, and
		// the first that is not full.
		from, to := (before*8+5)/6, len(padded)*8/6
		if to-from < minText {
			continue
		}
		out = append(out, base64.RawStdEncoding.EncodeToString(padded)[from:to], base64.RawURLEncoding.EncodeToString(padded)[from:to])
	}
	return out
}

// grown is where a form that was found stands, with what else is made of the
// secret.
func (f *form) grown(text []byte, at int) span {
	s := span{at, at + len(f.text)}
	if !f.base64 {
		return s
	}
	if s.from > 0 && isBase64(text[s.from-1]) && !endsEscape(text[:s.from]) {
		s.from--
	}
	if s.to < len(text) && isBase64(text[s.to]) {
		s.to++
	}
	return s
}

// endsEscape reports that the last byte of a text is of an escape in JSON, which would be none without it.
func endsEscape(text []byte) bool {
	n := len(text)
	return n >= 2 && text[n-2] == '\\' || n >= 6 && text[n-6] == '\\' && text[n-5] == 'u'
}

func isBase64(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_'
}

// spellings lists the ways in which URLs and JSON write a text, itself included.
func spellings(text string) []string {
	query, path, component := url.QueryEscape(text), url.PathEscape(text), encodeComponent(text)
	return []string{
		text,
		query, lowerHex(query), path, lowerHex(path), component, lowerHex(component),
		inJSON(text, false), inJSON(text, true), strings.ReplaceAll(inJSON(text, false), "/", `\/`),
		inASCII(text), strings.ReplaceAll(inASCII(text), "/", `\/`), inNET(text),
	}
}

// encodeComponent is encodeURIComponent of JavaScript.
func encodeComponent(text string) string {
	return strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").Replace(url.QueryEscape(text))
}

// lowerHex spells %2F as %2f.
func lowerHex(escaped string) string {
	b := []byte(escaped)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i:i+3], strings.ToLower(string(b[i:i+3])))
			i += 2
		}
	}
	return string(b)
}

// inJSON is the inside of the JSON string of a text; html escapes <, > and & too,
// as Go does.
func inJSON(text string, html bool) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(html)
	_ = encoder.Encode(text) // a string cannot fail
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(b.String(), "\n"), `"`), `"`)
}

// inNET is inJSON as .NET writes it: what HTML could take for its own is escaped
// too, the + of base64 among it.
func inNET(text string) string {
	return strings.NewReplacer(`\"`, `\u0022`, "&", `\u0026`, "'", `\u0027`, "+", `\u002B`, "<", `\u003C`, ">", `\u003E`, "`", `\u0060`).Replace(inASCII(text))
}

// inASCII is inJSON as Python writes it: all that is not ASCII is escaped.
func inASCII(text string) string {
	var b strings.Builder
	for _, r := range inJSON(text, false) {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
