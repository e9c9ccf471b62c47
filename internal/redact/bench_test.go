package redact_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/redact"
)

// The plain replacer of the standard library stands beside the set, with the same
// secrets: a tool's result as it mostly is, without any of them.
func BenchmarkRedact(b *testing.B) {
	row := `{"id":%d,"name":"Blue widget, large","price_cents":1999,"url":"https://shop.example/items/%d?ref=list","note":"in stock\n"},`
	var text strings.Builder
	for i := 0; text.Len() < 8<<10; i++ {
		fmt.Fprintf(&text, row, i, i)
	}
	for _, size := range []int{1 << 10, 8 << 10, 1 << 20} {
		data := []byte(strings.Repeat(text.String(), size/text.Len()+1)[:size])
		for _, secrets := range []int{1, 20} {
			var all, pairs []string
			for i := range secrets {
				secret := fmt.Sprintf("sk-live-%02d-%x", i, 0x9E3779B97F4A7C15*uint64(i+1))
				all, pairs = append(all, secret), append(pairs, secret, "(redacted)")
			}
			set, plain := redact.New(all...), strings.NewReplacer(pairs...)
			b.Run(fmt.Sprintf("set/%d_secrets/%d_KiB", secrets, size>>10), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					set.Bytes(data)
				}
			})
			b.Run(fmt.Sprintf("replacer/%d_secrets/%d_KiB", secrets, size>>10), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					plain.Replace(string(data))
				}
			})
		}
	}
	// The worst there is: every byte could begin the secret.
	set, data := redact.New(strings.Repeat("a", 40)+"b"), []byte(strings.Repeat("a", 1<<20))
	b.Run("set/worst/1024_KiB", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			set.Bytes(data)
		}
	})
}
