package schema

import (
	"net/url"
	"slices"
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

// pointerTo is the JSON pointer (RFC 6901) that goes on from another one.
func pointerTo(from string, tokens ...string) string {
	to := jsontext.Pointer(from)
	for _, token := range tokens {
		to = to.AppendToken(token)
	}
	return string(to)
}

// fromPointer splits a JSON pointer into its tokens.
func fromPointer(p jsontext.Pointer) location { return slices.Collect(p.Tokens()) }

// referredTo is what a $ref leads to that stays within a document, and is a JSON pointer.
func referredTo(root any, ref string) (v any, found bool) {
	pointer, local := strings.CutPrefix(ref, "#")
	if !local || pointer != "" && pointer[0] != '/' {
		return nil, false
	}
	return fromPointer(jsontext.Pointer(pointer)).at(root)
}
