package config

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkParse reads a file of 1,000 tools, a large part of what there is to
// do between start and ready.
func BenchmarkParse(b *testing.B) {
	var file strings.Builder
	file.WriteString("backends: {shop: {http: {base_url: 'http://127.0.0.1:1'}}}\ntools:\n")
	for i := range 1000 {
		fmt.Fprintf(&file, `  get_order_%d:
    backend: shop
    description: Look an order up by its id.
    effect: read_only
    input_schema: {type: object, properties: {order_id: {type: string, pattern: "^A-[0-9]+$"}, verbose: {type: boolean}}, required: [order_id], additionalProperties: false}
    http: {method: GET, path: "/orders/{order_id}", query: {verbose: verbose}}
    errors:
      - {when: "status == 404", code: NOT_FOUND, hint: "Call search_orders to find the right id.", allowed_alternatives: [search_orders]}
    empty_when: "size(result.items) == 0"
`, i)
	}
	data := []byte(file.String())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("bench.yaml", data, theScene); err != nil {
			b.Fatal(err)
		}
	}
}
