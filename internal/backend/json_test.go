package backend_test

import (
	"testing"

	"github.com/sidecall/sidecall/internal/backend"
)

func TestWhatIsEvidentlyJSON(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: true, " \r\n\t[1, 2] ": true, `{"a":1,"a":2}`: true, "[\"\xff\"]": true, `["\ud800"]`: true,
		"": false, " ": false, "12": false, "true": false, `"a"`: false, "[1] x": false, "{": false, "[INFO] started": false, "{] }": false,
	} {
		if got := backend.EvidentJSON([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
