package output

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/tool"
)

const smallJSON = `{"order_id":"A-1042","status":"shipped","cents":12990,"currency":"EUR","items":[{"sku":"K-7","quantity":2},` +
	`{"sku":"M-3","quantity":1}],"address":{"city":"Köln","zip":"50667"},"eta":"2026-12-01"}`

func BenchmarkShape(b *testing.B) {
	for name, in := range map[string]Input{
		"small JSON":           {Reply: tool.Reply{Text: []byte(smallJSON), JSON: true}},
		"small text":           {Reply: tool.Reply{Text: []byte(strings.Repeat("a line of text\n", 14))}},
		"small JSON untrusted": {Reply: tool.Reply{Text: []byte(smallJSON), JSON: true}, Untrusted: true},
		"dirty JSON":           {Reply: tool.Reply{Text: []byte(strings.Replace(smallJSON, "EUR", `EU\u200bR`, 1)), JSON: true}},
	} {
		b.Run(name, func(b *testing.B) {
			in.Limit, in.Strategy, in.Keep = DefaultLimit, Auto, true
			b.ReportAllocs()
			for b.Loop() {
				if Shape(in).Truncated {
					b.Fatal("cut")
				}
			}
		})
	}
}

func BenchmarkShapeLarge(b *testing.B) {
	for name, text := range large(10 << 20) {
		b.Run(name, func(b *testing.B) {
			in := Input{Reply: tool.Reply{Text: []byte(text)}, Untrusted: true, Keep: true}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				Shape(in)
			}
		})
	}
}

func BenchmarkPage(b *testing.B) {
	data := []byte(strings.Repeat("a line of text, é\n", (10<<20)/19))
	total := int64(countChars(data))
	for _, offset := range []int64{0, total / 2, total - DefaultPage} {
		b.Run(fmt.Sprintf("from %d", offset), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, wrong := Page(b.Context(), data, offset, 0, ""); wrong != nil {
					b.Fatal(wrong)
				}
			}
		})
	}
	for name, pattern := range map[string]string{"word": "missing", "anything": "a.*z", "costly": "(a+|l+|e+)+(t+|x+)+z"} {
		b.Run("search "+name, func(b *testing.B) {
			for b.Loop() {
				if _, wrong := Page(b.Context(), data, 0, 0, pattern); wrong != nil {
					b.Fatal(wrong)
				}
			}
		})
	}
}
