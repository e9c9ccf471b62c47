package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// item is the field's rules as they hold for each item of a list or a map.
func (f *field) item() *field {
	inner := *f
	inner.keys, inner.items = nil, 0
	return &inner
}

// expected says what a scalar of the field should be.
func (f *field) expected(sc *scalar) string {
	if len(f.enum) > 0 {
		return "one of " + strings.Join(f.enum, ", ")
	}
	if f.format != nil && sc.text {
		return f.format.expect
	}
	return sc.expect
}

// outOfRange compares with min and max.
func (f *field) outOfRange(sc *scalar, value float64) string {
	low, hasLow := sc.bound(f.min)
	high, hasHigh := sc.bound(f.max)
	switch {
	case hasLow && hasHigh && (value < low || value > high):
		return "expected " + f.min + " to " + f.max
	case hasLow && value < low:
		return "expected at least " + f.min
	case hasHigh && value > high:
		return "expected at most " + f.max
	default:
		return ""
	}
}

// wrongString checks a plain string, which holds no references.
func (f *field) wrongString(value string) string {
	switch {
	case len(f.enum) > 0 && !slices.Contains(f.enum, value):
		return fmt.Sprintf("expected one of %s, found %s%s", strings.Join(f.enum, ", "), quote(value), didYouMean(value, f.enum))
	case f.format != nil && f.format.wrong(value) != "":
		return f.format.wrong(value) + ", found " + quote(value)
	case f.required && value == "":
		return "expected a string that is not empty"
	case strings.Contains(value, "${env:") || strings.Contains(value, "${file:"):
		return "references such as ${env:NAME} are not resolved in this key: write the value itself"
	default:
		return ""
	}
}

// wrongKey checks the key of a map.
func (f *field) wrongKey(key string) string {
	if f.keys == nil {
		return ""
	}
	return f.keys.wrong(key)
}

// advice adds what to do to a wrong scalar.
func advice(sc *scalar, f *field, n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	switch tag := n.ShortTag(); {
	case sc.text && f.enum == nil && (tag == "!!int" || tag == "!!float" || tag == "!!bool"):
		return ": put it in quotes"
	case !sc.text && tag == "!!str" && strings.Contains(n.Value, "${"):
		return ": references are resolved in strings only"
	case tag == "!!str" && sc.parses(textNode(n.Value)):
		return ": write it without quotes"
	case f.enum != nil && tag == "!!str":
		return didYouMean(n.Value, f.enum)
	case sc == boolScalar && tag == "!!str":
		return advise(map[string]string{"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}[strings.ToLower(n.Value)])
	default:
		return ""
	}
}

func advise(value string) string {
	if value == "" {
		return ""
	}
	return ": write " + value
}

// listAdvice shows how one value is written as a list.
func listAdvice(n *yaml.Node) string {
	switch {
	case isString(n) && strings.ContainsAny(n.Value, " \t"):
		return ": write it in brackets, with commas between the items"
	case isString(n):
		return ": write it in brackets"
	}
	return ""
}
