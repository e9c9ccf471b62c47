package schema

import (
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// fragment is the JSON pointer in a schema's location.
func fragment(address string) string {
	_, f, _ := strings.Cut(address, "#")
	if plain, err := url.PathUnescape(f); err == nil {
		return plain
	}
	return f
}

func escapePointer(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
}

// splitPointer is a JSON pointer's tokens, unescaped.
func splitPointer(p string) []string {
	if p == "" {
		return nil
	}
	tokens := strings.Split(p[1:], "/")
	for i, t := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	return tokens
}

// fromPointer splits a JSON pointer (RFC 6901) into its tokens.
func fromPointer(p jsontext.Pointer) location {
	var out location
	for token := range p.Tokens() {
		out = append(out, token)
	}
	return out
}
