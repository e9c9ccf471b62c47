package schema

import (
	"slices"
	"strings"
	"testing"
)

func TestFieldPath(t *testing.T) {
	for field, want := range map[string][]string{
		"":                     nil,
		"a":                    {"a"},
		"a.b[2].c":             {"a", "b", "2", "c"},
		`["x.y"]`:              {"x.y"},
		`a["b\"]c"][0]["é"].d`: {"a", `b"]c`, "0", "é", "d"},
		`[""].a`:               {"", "a"},
		".a":                   {"a"}, // as an upstream may write it
		"a..b":                 {"a", "b"},
		`a["b`:                 {"a", `"b`},
		"[":                    nil,
		"a[b]]":                {"a", "b"},
		"$.items[3]":           {"$", "items", "3"},
	} {
		if got := FieldPath(field); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
}

// FuzzFieldPath: what errors name is read back, and anything else is read to
// its end.
func FuzzFieldPath(f *testing.F) {
	f.Add("a", "x.y")
	f.Add("", "]\"\\")
	f.Add("[\"", "\u2028")
	f.Fuzz(func(t *testing.T, name, inner string) {
		FieldPath(name)
		name, inner = strings.ToValidUTF8(name, "?"), strings.ToValidUTF8(inner, "?")
		want := location{name, "1", inner}
		field := want.field(map[string]any{name: []any{nil, map[string]any{inner: nil}}})
		if got := FieldPath(field); !want.equal(got) {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	})
}
