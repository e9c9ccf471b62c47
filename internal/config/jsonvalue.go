package config

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"
)

// json appends the value as JSON. What JSON cannot say is a problem, and null
// in its place.
func (d *decoder) json(out []byte, s spot) []byte {
	switch n := s.node; n.Kind {
	case yaml.MappingNode:
		out = append(out, '{')
		first := len(out)
		d.pairs(s, func(key string, at spot) {
			if !isString(at.key) {
				d.found.add(at.atKey(), "expected a string as a key, found %s: put it in quotes", describe(at.key))
			}
			if len(out) > first {
				out = append(out, ',')
			}
			out = append(appendString(out, key), ':')
			out = d.json(out, at)
		})
		return append(out, '}')
	case yaml.SequenceNode:
		out = append(out, '[')
		for i, item := range n.Content {
			if i > 0 {
				out = append(out, ',')
			}
			out = d.json(out, spot{path: s.path.item(i), node: item})
		}
		return append(out, ']')
	default:
		text, ok := jsonScalar(n)
		if !ok {
			d.found.add(s.at(), "expected a value that JSON knows, found %s", describe(n))
			return append(out, "null"...)
		}
		return append(out, text...)
	}
}

// jsonScalar is a YAML scalar as JSON text.
func jsonScalar(n *yaml.Node) (string, bool) {
	switch {
	case isString(n):
		return string(appendString(nil, n.Value)), true
	case isNull(n):
		return "null", true
	}
	switch n.ShortTag() {
	case "!!bool":
		value, ok := parseBool(n)
		return strconv.FormatBool(value), ok
	case "!!int", "!!float":
		return jsonNumber(n.Value)
	default:
		return "", false
	}
}

// jsonNumberText is the grammar of a number in RFC 8259.
var jsonNumberText = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// jsonNumber keeps the digits where JSON has the same notation (1.50 and
// numbers beyond 64 bits included) and converts the rest (0x1F, 1_000, .5).
func jsonNumber(text string) (string, bool) {
	if jsonNumberText.MatchString(text) {
		return text, true
	}
	if octal.MatchString(text) {
		return "", false
	}
	text = strings.TrimPrefix(text, "+")
	if i, err := strconv.ParseInt(text, 0, 64); err == nil {
		return strconv.FormatInt(i, 10), true
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "", false
	}
	out, err := json.Marshal(f)
	return string(out), err == nil
}

// appendString appends a JSON string.
func appendString(out []byte, s string) []byte {
	// The error means invalid UTF-8, which the file was checked not to hold
	// and which would have been replaced.
	out, _ = jsontext.AppendQuote(out, s)
	return out
}
