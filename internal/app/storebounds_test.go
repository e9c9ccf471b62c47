package app

import (
	"fmt"
	"reflect"
	"strconv"
	"testing"
	"unicode/utf8"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/output"
)

// Whatever the config file allows, a store takes the result and what is kept of
// its output: else a call that has run would be unknown for the length of its
// text.
func TestTheLargestResultFitsTheStore(t *testing.T) {
	const others = 1 << 20 // the names, the notices, the error
	for _, keys := range []reflect.Type{reflect.TypeFor[config.Defaults](), reflect.TypeFor[config.Tool]()} {
		field, ok := keys.FieldByName("MaxOutputChars")
		most, err := strconv.Atoi(field.Tag.Get("max"))
		if !ok || err != nil {
			t.Fatalf("%v: %v", keys, err)
		}
		if largest := utf8.UTFMax*most + output.DefaultCarry + others; largest > dedupe.MaxResultBytes {
			t.Errorf("%v: %d characters may be %d bytes with what they carry, and a store takes %d", keys, most, largest, dedupe.MaxResultBytes)
		}
	}
	for size, want := range map[int]bool{dedupe.MaxOutputBytes: true, dedupe.MaxOutputBytes + 1: false} {
		_, err := config.Parse("s.yaml", fmt.Appendf(nil, "limits: {keep_output_bytes: %d}", size), config.System())
		if accepted := err == nil; accepted != want {
			t.Errorf("keep_output_bytes %d: %v", size, err)
		}
	}
}
