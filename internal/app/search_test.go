package app

import (
	"strings"
	"testing"
)

// Each argument that calls are to be found by, and that there is not, has its place.
func TestBadSearchKeysNameThePlace(t *testing.T) {
	const text = `backends: {sh: {exec: {}}}
tools:
  a: {backend: sh, exec: {argv: [ls]}, search_keys: [order, a.], input_schema: {type: object, properties: {order_id: {type: string}}, additionalProperties: false}}
  b: {backend: sh, exec: {argv: [ls]}, search_keys: [a, b, c, d, e], input_schema: {type: object, properties: {a: {}, b: {}, c: {}, d: {}, e: {}}}}
`
	var got []string
	for _, p := range checked(t, text) {
		if strings.Contains(p.Path, "search_keys") {
			got = append(got, string(p.Rule)+" "+p.Error())
		}
	}
	want := []string{
		`argument sidecall.yaml:3:54: tools.a.search_keys[0]: the input schema can never have "order"`,
		`value sidecall.yaml:3:61: tools.a.search_keys[1]: must name an argument, such as order_id, file.path or /file/path; it is "a."`,
		`argument sidecall.yaml:3:61: tools.a.search_keys[1]: the input schema can never have "a"`,
		`value sidecall.yaml:4:53: tools.b.search_keys: at most 4 arguments can be searched by`,
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
