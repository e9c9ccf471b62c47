package backend

import "github.com/go-json-experiment/json/jsontext"

// LooseJSON accepts what JSON parsers in use accept: names that stand twice, invalid
// UTF-8 and lone surrogates.
var LooseJSON = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// EvidentJSON reports whether text is one JSON object or array. A bare number or word is
// left as the text that it more likely is.
func EvidentJSON(text []byte) bool {
	return LooksJSON(text) && jsontext.Value(text).IsValid(LooseJSON...)
}

// LooksJSON reports whether text begins as a JSON object or array does.
func LooksJSON(text []byte) bool {
	kind := jsontext.Value(text).Kind()
	return kind == jsontext.KindBeginObject || kind == jsontext.KindBeginArray
}
