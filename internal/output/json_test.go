package output

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestWhatIsJSON(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: true, ` [ ] `: true, `null`: true, `"a"`: true, `-0`: true, `0.5e-7`: true, `1E+9`: true, `[[],{}]`: true, `{"a":{"b":[1]}}`: true,
		``: false, ` `: false, `+1`: false, `.5`: false, `-`: false, `1e`: false, `1e+`: false, `00`: false, `0x1`: false, `NaN`: false, `nulll`: false,
		`[1 2]`: false, `[,]`: false, `{"a" 1}`: false, `{"a":}`: false, `{a:1}`: false, `{"a":1,}`: false, `[}`: false, `{]`: false, `'a'`: false,
		`"\a"`: false, `"\u12g4"`: false, `"\`: false, "\"\t\"": false, `[1]x`: false, "\"\x7f\"": true, `"\uABcd"`: true,
	} {
		if _, got := CleanJSON([]byte(text)); got != want || got != json.Valid([]byte(text)) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// What is clean is returned as it is, uncopied.
func TestWhatIsDirty(t *testing.T) {
	for text, want := range map[string]bool{
		`{"a":"b\n\t\"\\\/é\u00e9\ud83d\ude00"}`: false, "[1 , 2]\n": false,
		`"\r"`: true, `"\b"`: true, `"\f"`: true, `"\u0000"`: true, `"\u001B"`: true, `"\u007f"`: true, `"\u0085"`: true, `"\u202e"`: true,
		`"\ud800"`: true, `"\udb40\udc41"`: true, "\"\x7f\"": true, "\"\u200b\"": true, "\"\xff\"": true, "[1]\r\n": true,
	} {
		in := []byte(text)
		clean, ok := CleanJSON(in)
		if dirty := &clean[0] != &in[0]; !ok || dirty != want || dirty == (string(clean) == text) {
			t.Errorf("%q: valid %v, dirty %v, want %v: %q", text, ok, dirty, want, clean)
		}
	}
}

func TestJSONThatBreaksOffCanBeClosed(t *testing.T) {
	for text, want := range map[string]string{
		`[1,2,3`:                      `[1,2]`,
		`[1,2,`:                       `[1,2]`,
		`{"a":1,"b":"half a str`:      `{"a":1}`,
		`{"a":1,"b`:                   `{"a":1}`,
		`{"a":1,"b"`:                  `{"a":1}`,
		`{"a":1,"b":`:                 `{"a":1}`,
		`{"a":[1,{"b":tru`:            `{"a":[1,{}]}`,
		`{"a":[1,{"b":2},`:            `{"a":[1,{"b":2}]}`,
		`[[],[],[`:                    `[[],[],[]]`,
		`[`:                           `[]`,
		`["a","\u00`:                  `["a"]`,
		`["a","\`:                     `["a"]`,
		`[{"a":1}   `:                 `[{"a":1}]`,
		`[-`:                          `[]`,
		strings.Repeat(`{"a":[`, 100): strings.Repeat(`{"a":[`, 100) + strings.Repeat(`]}`, 100),
	} {
		whole, closers := brokenOff([]byte(text))
		if got := string(slices.Concat([]byte(text[:whole]), closers)); got != want {
			t.Errorf("%q closed is %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"", `"half`, "12", "[1,}", `{"a":1]`, `[1,"\x`, "tru", `{"a":nul}`, "text"} {
		if whole, closers := brokenOff([]byte(text)); whole > 0 || len(closers) > 0 {
			t.Errorf("%q: taken for the beginning of JSON", text)
		}
	}
}

func TestNestingIsBounded(t *testing.T) {
	const most = 10_000
	for n, want := range map[int]bool{most: true, most + 1: false} {
		if _, ok := CleanJSON([]byte(strings.Repeat("[", n) + strings.Repeat("]", n))); ok != want {
			t.Errorf("nested %d times: %v", n, ok)
		}
	}
}
