package schema_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/schema"
)

// canonicalText parses and writes one value.
func canonicalText(t *testing.T, text string) string {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	out, err := schema.Canonical(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// The table of RFC 8785, appendix B.
func TestCanonicalDoubles(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0",
		0x8000000000000000: "0",
		0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308",
		0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		f := math.Float64frombits(bits)
		got, err := schema.Canonical(f)
		if err != nil || string(got) != want {
			t.Errorf("%#x: got %s, %v, want %s", bits, got, err, want)
		}
		if again := canonicalText(t, want); again != want {
			t.Errorf("%s is read again as %s", want, again)
		}
	}
}

func TestCanonicalRefusesWhatJSONCannotSay(t *testing.T) {
	for _, v := range []any{math.NaN(), math.Inf(1), math.Inf(-1), "\xff", map[string]any{"\xff": 1}, struct{}{}, []any{func() {}}, json.Number("1e400"), json.Number("1e-999999999")} {
		if got, err := schema.Canonical(v); err == nil {
			t.Errorf("%v became %s", v, got)
		}
	}
	deep := any("x")
	for range schema.MaxDepth + 2 {
		deep = []any{deep}
	}
	if _, err := schema.Canonical(deep); err == nil {
		t.Error("endless nesting was accepted")
	}
}

// The examples of RFC 8785, sections 3.2.2 and 3.2.3.
func TestCanonicalExamples(t *testing.T) {
	for in, want := range map[string]string{
		`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`:                                        `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`: "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
		`[56,{"d":true,"10":null,"1":[]}]`: `[56,{"1":[],"10":null,"d":true}]`,
		`{"a":{"b":"<&>\u2028"}}`:          "{\"a\":{\"b\":\"<&>\u2028\"}}",
		`{"peach":"This sorting order","péché":"is wrong according to French","pêche":"but canonicalization MUST","sin":"ignore locale"}`: `{"peach":"This sorting order","péché":"is wrong according to French","pêche":"but canonicalization MUST","sin":"ignore locale"}`,
	} {
		if got := canonicalText(t, in); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestCanonicalKeepsIntegersThatNoDoubleHolds(t *testing.T) {
	for in, want := range map[string]string{
		"9007199254740993":            "9007199254740993",
		"9007199254740993.0":          "9007199254740993",
		"900719925474099300e-2":       "9007199254740993",
		"-1234567890123456789":        "-1234567890123456789",
		"12345678901234567890123":     "12345678901234567890123",
		"1.2345678901234567890123e22": "12345678901234567890123",
		"100000000000000000000000":    "1e+23",
		"1000000000000000000000":      "1e+21",
		"18446744073709551615":        "18446744073709551615",
		"1.0":                         "1",
		"1e0":                         "1",
		"10e-1":                       "1",
		"-0":                          "0",
		"-0.0":                        "0",
		"0e5":                         "0",
		"123456789012345":             "123456789012345",
		"1234567890123456":            "1234567890123456",
		"0.1":                         "0.1",
		"0.10000000000000000001":      "0.1",
	} {
		if got := canonicalText(t, in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestCanonicalWritesGoNumbers(t *testing.T) {
	for want, v := range map[string]any{"-7": -7, "9007199254740993": int64(9007199254740993), "18446744073709551615": uint64(math.MaxUint64), "2.5": 2.5} {
		if got, err := schema.Canonical(v); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}

func TestFingerprintTellsNameFromArguments(t *testing.T) {
	seen := map[[32]byte]string{}
	for _, c := range []struct{ name, canonical string }{
		{"a", `{}`}, {"a{", `}`}, {"", `a{}`}, {"a{}", ``}, {"b", `{}`}, {"a", `{"x":1}`}, {"a", `{"x":9007199254740993}`}, {"a", `{"x":9007199254740992}`},
	} {
		hash := schema.Fingerprint(c.name, []byte(c.canonical))
		if other, known := seen[hash]; known {
			t.Errorf("%q %q has the fingerprint of %s", c.name, c.canonical, other)
		}
		seen[hash] = c.name + " " + c.canonical
		if again := schema.Fingerprint(c.name, bytes.Clone([]byte(c.canonical))); again != hash {
			t.Error("not stable")
		}
	}
}
