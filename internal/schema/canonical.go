package schema

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Canonical writes a decoded JSON value in the canonical form of RFC 8785:
// no spaces, members ordered by the UTF-16 units of their names, one spelling
// of every string and number.
//
// It departs from the RFC in one point: an integer that a double cannot hold
// keeps all its digits, because two different ids must not become the same
// call. v is made of map[string]any, []any, string, json.Number, float64,
// int, int64, uint64, bool and nil.
func Canonical(v any) ([]byte, error) {
	return AppendCanonical(make([]byte, 0, 256), v)
}

// AppendCanonical is Canonical into a buffer of the caller's.
func AppendCanonical(dst []byte, v any) ([]byte, error) {
	return appendCanonical(dst, v, 0)
}

func appendCanonical(dst []byte, v any, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return dst, fmt.Errorf("canonical JSON: nested deeper than %d", MaxDepth)
	}
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return appendString(dst, v)
	case json.Number:
		return appendNumber(dst, string(v))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return dst, fmt.Errorf("canonical JSON: %v is not a JSON number", v)
		}
		return appendDouble(dst, v), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case uint64:
		return strconv.AppendUint(dst, v, 10), nil
	case []any:
		return appendArray(dst, v, depth)
	case map[string]any:
		return appendObject(dst, v, depth)
	default:
		return dst, fmt.Errorf("canonical JSON: cannot write a %T", v)
	}
}

func appendArray(dst []byte, arr []any, depth int) (_ []byte, err error) {
	dst = append(dst, '[')
	for i, v := range arr {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendCanonical(dst, v, depth+1); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

func appendObject(dst []byte, obj map[string]any, depth int) (_ []byte, err error) {
	var few [16]string // most objects have no more members: no allocation
	names := few[:0]
	for name := range obj {
		names = append(names, name)
	}
	slices.SortFunc(names, compareUTF16)
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendString(dst, name); err != nil {
			return dst, err
		}
		dst = append(dst, ':')
		if dst, err = appendCanonical(dst, obj[name], depth+1); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// appendString quotes s with the shortest escapes, which are the canonical
// ones (RFC 8785 section 3.2.2.2).
func appendString(dst []byte, s string) ([]byte, error) {
	if plainASCII(s) {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"'), nil
	}
	dst, err := jsontext.AppendQuote(dst, s)
	if err != nil {
		return dst, fmt.Errorf("canonical JSON: %w", err)
	}
	return dst, nil
}

// plainASCII reports whether s needs no escape in JSON and no look at its UTF-8.
func plainASCII(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// compareUTF16 orders by UTF-16 code units (RFC 8785 section 3.2.3), of what is UTF-8.
func compareUTF16(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	if i == len(a) || i == len(b) {
		return len(a) - len(b)
	}
	for i > 0 && !utf8.RuneStart(a[i]) {
		i--
	}
	x, _ := utf8.DecodeRuneInString(a[i:])
	y, _ := utf8.DecodeRuneInString(b[i:])
	return int(order16(x) - order16(y))
}

// order16 is the place of a character in the order of UTF-16: as that of the code points, but for
// those beyond U+FFFF, whose surrogates stand before U+E000.
func order16(r rune) rune {
	if r >= 0xE000 && r <= 0xFFFF {
		return r + utf8.MaxRune
	}
	return r
}

// Fingerprint is what makes two calls the same call: SHA-256 over the tool's
// name, framed by its length so that no name can pass for a part of the
// arguments, and the canonical arguments.
func Fingerprint(toolName string, canonical []byte) [32]byte {
	var few [512]byte
	buf := few[:0]
	buf = append(buf, "sidecall.v1\x00"...)
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(toolName)))
	buf = append(buf, toolName...)
	buf = append(buf, canonical...)
	return sha256.Sum256(buf)
}
