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
		if got := scanJSON([]byte(text)).valid; got != want || got != json.Valid([]byte(text)) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestWhatIsDirty(t *testing.T) {
	for text, want := range map[string]bool{
		`{"a":"b\n\t\"\\\/é\u00e9\ud83d\ude00"}`: false, "[1 , 2]\n": false,
		`"\r"`: true, `"\b"`: true, `"\f"`: true, `"\u0000"`: true, `"\u001B"`: true, `"\u007f"`: true, `"\u0085"`: true, `"\u202e"`: true,
		`"\ud800"`: true, `"\udb40\udc41"`: true, "\"\x7f\"": true, "\"\u200b\"": true, "\"\xff\"": true, "[1]\r\n": true,
	} {
		if scan := scanJSON([]byte(text)); !scan.valid || scan.dirty != want {
			t.Errorf("%q: valid %v, dirty %v, want %v", text, scan.valid, scan.dirty, want)
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
		scan := scanJSON([]byte(text))
		if got := string(slices.Concat([]byte(text[:scan.safe]), scan.closers)); !scan.open || got != want {
			t.Errorf("%q: open %v, closed %q, want %q", text, scan.open, got, want)
		}
	}
	for _, text := range []string{"", `"half`, "12", "[1,}", `{"a":1]`, `[1,"\x`, "tru", `{"a":nul}`, "text"} {
		if scan := scanJSON([]byte(text)); scan.open {
			t.Errorf("%q: taken for the beginning of JSON", text)
		}
	}
}

func TestNestingIsBounded(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if !scanJSON(nested(maxNesting)).valid || scanJSON(nested(maxNesting+1)).valid {
		t.Error("the bound is elsewhere")
	}
}
