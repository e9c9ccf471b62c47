package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sidecall/sidecall/internal/tool"
)

// scalar is a type that is written as one YAML scalar.
type scalar struct {
	expect string // what to say that was expected
	text   bool   // holds free text: enum and format apply, and quotes help
	// parse returns the value; ok is false when the node is not one.
	parse  func(n *yaml.Node) (value any, ok bool)
	schema map[string]any
}

const durationPattern = `^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$`

const bytesPattern = `^[0-9]+ ?(B|kB|KB|MB|GB|KiB|MiB|GiB)$`

// scalars are the scalar types, each with what makes it up.
var scalars = map[reflect.Type]*scalar{
	reflect.TypeFor[bool]():    boolScalar,
	reflect.TypeFor[int]():     intScalar,
	reflect.TypeFor[int64]():   intScalar,
	reflect.TypeFor[float64](): {expect: "a number", parse: as(parseFloat), schema: map[string]any{"type": "number"}},
	reflect.TypeFor[time.Duration](): {
		expect: `a duration with a unit (ns, us, ms, s, m or h), such as 30s or 1m30s`,
		parse:  as(parseDuration),
		schema: map[string]any{"type": "string", "pattern": durationPattern},
	},
	reflect.TypeFor[Bytes](): {
		expect: `a number of bytes or a size such as 4MiB`,
		parse:  as(parseBytes),
		schema: map[string]any{"type": []string{"integer", "string"}, "pattern": bytesPattern},
	},
	reflect.TypeFor[tool.Effect](): {text: true, parse: as(parseEffect)},
	reflect.TypeFor[tool.Code]():   stringScalar,
	reflect.TypeFor[Trust]():       stringScalar,
	reflect.TypeFor[string]():      stringScalar,
}

// The scalars of several types, or that messages make exceptions for.
var (
	boolScalar   = &scalar{expect: "true or false", parse: as(parseBool), schema: map[string]any{"type": "boolean"}}
	intScalar    = &scalar{expect: "a whole number", parse: as(parseInt), schema: map[string]any{"type": "integer"}}
	stringScalar = &scalar{expect: "a string", text: true, parse: func(n *yaml.Node) (any, bool) { return n.Value, isString(n) }}
)

// enums are the types of which there are only these values.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[tool.Effect](): {tool.ReadOnly.String(), tool.Idempotent.String(), tool.Keyed.String(), tool.NonIdempotent.String()},
	reflect.TypeFor[tool.Code]():   mappableCodes,
	reflect.TypeFor[Trust]():       {string(Trusted), string(Untrusted)},
}

func as[T any](parse func(n *yaml.Node) (T, bool)) func(n *yaml.Node) (any, bool) {
	return func(n *yaml.Node) (any, bool) {
		value, ok := parse(n)
		return value, ok
	}
}

// number is a value for comparison with min and max.
func number(value any) (float64, bool) {
	switch v := reflect.ValueOf(value); {
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanFloat():
		return v.Float(), true
	default:
		return 0, false
	}
}

// mappableCodes are the codes that an error mapping may give: those that say
// something about the tool. The others are Sidecall's own to give.
var mappableCodes = []string{
	string(tool.CodeInvalidArgs), string(tool.CodeNotFound), string(tool.CodePermissionDenied),
	string(tool.CodeUnauthenticated), string(tool.CodeConflict), string(tool.CodeBusinessRule),
	string(tool.CodeUnrecoverable), string(tool.CodeRateLimited), string(tool.CodeTimeout),
	string(tool.CodeDependencyUnavailable), string(tool.CodeOverloaded),
	string(tool.CodeOutcomeUnknown), string(tool.CodeInvalidOutput),
}

// isString reports whether the node is text. A plain 2026-11-21 is: YAML 1.2
// knows no dates.
func isString(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	tag := n.ShortTag()
	return tag == "!!str" || tag == "!!timestamp" && n.Style&yaml.TaggedStyle == 0
}

func parseBool(n *yaml.Node) (bool, bool) {
	ok := n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool"
	value, err := strconv.ParseBool(strings.ToLower(n.Value))
	return value, ok && err == nil
}

// octal are numbers that one YAML reads to the base of 8, and another to that of 10.
var octal = regexp.MustCompile(`^[-+]?0[0-9_]`)

func parseInt(n *yaml.Node) (int64, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || octal.MatchString(n.Value) {
		return 0, false
	}
	i, err := strconv.ParseInt(strings.TrimPrefix(n.Value, "+"), 0, 64)
	return i, err == nil
}

func parseFloat(n *yaml.Node) (float64, bool) {
	if i, ok := parseInt(n); ok {
		return float64(i), true
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!float" {
		return 0, false
	}
	// Fails on .inf and .nan, which no key here means.
	f, err := strconv.ParseFloat(n.Value, 64)
	return f, err == nil
}

func parseDuration(n *yaml.Node) (time.Duration, bool) {
	// The sign is legal for Go but no duration here is negative, and a bare 0
	// has no unit.
	d, err := time.ParseDuration(n.Value)
	return d, isString(n) && err == nil && d >= 0 && !strings.ContainsAny(n.Value, "+-") && n.Value != "0"
}

func parseBytes(n *yaml.Node) (Bytes, bool) {
	if i, ok := parseInt(n); ok {
		return Bytes(i), i >= 0
	}
	if !isString(n) {
		return 0, false
	}
	for _, u := range byteUnits {
		if digits, found := strings.CutSuffix(n.Value, u.name); found {
			i, err := strconv.ParseUint(strings.TrimSuffix(digits, " "), 10, 63)
			return Bytes(int64(i) * u.size), err == nil && i <= uint64(1<<62)/uint64(u.size)
		}
	}
	return 0, false
}

func parseEffect(n *yaml.Node) (tool.Effect, bool) {
	effect, err := tool.ParseEffect(n.Value)
	return effect, err == nil && isString(n)
}

// describe says what a node is, for "found ...".
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch kind := describeKind(n); kind {
	case "nothing", "true", "false":
		return kind
	case "a string":
		return "the string " + quote(n.Value)
	default:
		return "the" + strings.TrimPrefix(kind, "a") + " " + shorten(n.Value)
	}
}

// describeKind is describe without the value, for secrets.
func describeKind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		return describe(n)
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool":
		return strings.ToLower(n.Value)
	case "!!int", "!!float":
		return "a number"
	case "!!str", "!!timestamp":
		return "a string"
	default:
		return fmt.Sprintf("a value with the tag %s", shorten(n.ShortTag()))
	}
}
