package output

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

func TestCleanRemovesWhatNobodySees(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"invalid UTF-8, one run":       {"a\xff\xfe\xfdb", "a\uFFFDb"},
		"invalid UTF-8, two runs":      {"\xc3(\xe2\x82", "\uFFFD(\uFFFD"},
		"an encoded surrogate":         {"a\xed\xa0\x80b", "a\uFFFDb"},
		"a real U+FFFD":                {"a\uFFFD\uFFFDb", "a\uFFFD\uFFFDb"},
		"controls":                     {"a\x00\x01\x08b\x7fc\td\n", "abc\td\n"},
		"line ends":                    {"a\r\nb\rc\vd\fe\u0085f\u2028g\u2029h", "a\nb\nc\nd\ne\nf\ng\nh"},
		"colours":                      {"\x1b[1;31mred\x1b[0m", "red"},
		"a cursor movement":            {"a\x1b[2K\x1b[1Gb", "ab"},
		"8-bit CSI":                    {"a\u009b31mb", "ab"},
		"a hyperlink":                  {"\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text"},
		"a window title":               {"\x1b]0;title\x07text", "text"},
		"8-bit OSC":                    {"\u009d0;title\u009ctext", "text"},
		"a picture in DCS":             {"a\x1bPq#0\n#1\x1b\\b", "ab"},
		"an OSC that does not end":     {"a\x1b]0;the rest stays", "a0;the rest stays"},
		"an OSC that a line ends":      {"\x1b]0;one\ntwo\x07", "0;one\ntwo"},
		"an OSC that another ends":     {"\x1b]0;one\x1b]0;t\x07two", "0;onetwo"},
		"a charset":                    {"\x1b(Ba", "a"},
		"a reset":                      {"\x1bca", "a"},
		"a lone ESC at the end":        {"a\x1b", "a"},
		"a CSI at the end":             {"a\x1b[31", "a"},
		"ESC before a letter not ours": {"\x1bäa", "äa"},
		"zero width space, BOM":        {"a\u200bb\ufeffc", "abc"},
		"bidi override":                {"a\u202eb\u202cc\u2066d\u2069", "abcd"},
		"direction marks":              {"\u200eא\u200f\u061c", "א"},
		"soft hyphen, word joiner":     {"a\u00adb\u2060c", "abc"},
		"fillers":                      {"a\u3164b\uffa0c\u115f\u1160d", "abcd"},
		"hidden words in tags":         {"a\U000e0068\U000e0069b", "ab"},
		"hidden bytes in selectors":    {"😀\ufe00\ufe01\U000e0101\U000e0150b", "😀b"},
		"selectors behind a letter":    {"a\ufe0fb\ufe0e", "ab"},
		"two selectors":                {"❤\ufe0f\ufe0f\ufe0e", "❤\ufe0f"},
		"joiners between letters":      {"a\u200db\u200cc", "abc"},
		"joiners in a row":             {"می\u200c\u200c\u200dخ", "می\u200cخ"},
		"a joiner after the emoji":     {"😀\u200d x", "😀 x"},
		"a joiner before the emoji":    {"x\u200d😀", "x😀"},
		"tags of no flag":              {"🏴" + tags("hidden"), "🏴"},
		"a half flag":                  {"🏴" + flagTags[0][:8], "🏴"},
		"noncharacters":                {"a\ufffe\U0001ffff\ufdd0b", "ab"},
		"ideographic variation":        {"葛\U000e0100城", "葛城"},
		"a selector on a digit":        {"1\ufe0f2", "12"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Clean([]byte(c.in)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// spelling holds invisible characters that belong to what people write.
var spelling = []string{
	"", "plain\ttext\n", "Grüße, naïve café", "日本語 한국어", "e\u0301 combining",
	"می\u200cخواهم", "۱۴۴۵ ه\u200d", "क्\u200dष", "ক\u09cd\u200cষ", "ශ්\u200dරී",
	"👨\u200d👩\u200d👧\u200d👦", "🏳\ufe0f\u200d🌈", "👩🏽\u200d💻", "❤\ufe0f\u200d🔥", "👁\ufe0f\u200d🗨\ufe0f",
	"🇩🇪🇫🇷", "1\ufe0f⃣", "☎\ufe0e", "©\ufe0f", "ᠮᠤᠩᠭ\u180bᠤᠯ", "🏴" + flagTags[0], "🏴" + flagTags[2] + "!",
	"½ ≤ ∑ → ░ \ue000 \u3000 \u00a0 ⠀",
}

func TestCleanKeepsWhatIsSpelling(t *testing.T) {
	for _, text := range spelling {
		if got := Clean([]byte(text)); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
		dirty := "\x00" + text + "\x00"
		if got := Clean([]byte(dirty)); got != text {
			t.Errorf("among dirt: got %q, want %q", got, text)
		}
	}
}

func TestCleanTextIsNotCopied(t *testing.T) {
	for _, text := range []string{"plain", strings.Repeat("日本 ab\n", 100)} {
		b := []byte(text)
		if got := clean(b); &got[0] != &b[0] {
			t.Errorf("%.10q… was copied", text)
		}
	}
}

func TestCleanFindsTroubleAtAnyPosition(t *testing.T) {
	for _, bad := range []string{"\x00", "\x7f", "\x1f", "\r", "\xff", "\u200b", "\x1b[m"} {
		for n := range 20 {
			for _, filler := range []string{"~", " ", "é"} {
				text := strings.Repeat(filler, n)
				got := Clean([]byte(text + bad + text))
				if want := text + replacement(bad) + text; got != want {
					t.Fatalf("%q behind %d %q: got %q, want %q", bad, n, filler, got, want)
				}
			}
		}
	}
}

func replacement(bad string) string {
	switch bad {
	case "\r":
		return "\n"
	case "\xff":
		return "\uFFFD"
	default:
		return ""
	}
}

// What is left open must not make cleaning start over again and again.
func TestCleanTakesOnePassOverOpenSequences(t *testing.T) {
	for _, unit := range []string{"\x1b]", "\x1bP", "\u009d", "\x1b[", "\u200d", "😀\u200d", "\xff"} {
		b := bytes.Repeat([]byte(unit), (1<<20)/len(unit))
		if got := clean(b); len(got) > len(b)+3 {
			t.Errorf("%q: %d bytes of %d", unit, len(got), len(b))
		}
	}
}

func TestCleanJSONReachesThroughEscapes(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"x\u202ey\u200bz"}`:                "{\"a\":\"xyz\"}",
		`{"a":"\u001b[31mred\u001b[0m"}`:         `{"a":"red"}`,
		`{"a":"\udb40\udc68\udb40\udc69!"}`:      `{"a":"!"}`,
		`["\u0000\b\f\r\n\t"]`:                   `["\n\n\t"]`,
		`["a\u2028b"]`:                           `["a\nb"]`,
		`["\ud800","\udc00x","\ud83d\ude00"]`:    "[\"\uFFFD\",\"\uFFFDx\",\"\\ud83d\\ude00\"]",
		`["\ud83d\\ude00","\ud83d\ud83d"]`:       "[\"\uFFFD\\\\ude00\",\"\uFFFD\uFFFD\"]",
		"{\"k\u200b\":1,\"b\": \"\xff\"}":        "{\"k\":1,\"b\": \"\uFFFD\"}",
		"{\r\n\"a\":\r1}":                        "{\n\"a\":\n1}",
		"\ufeff[1]":                              "[1]",
		`["\\u202e","\/","\u00e9","\u003c"]`:     `["\\u202e","\/","\u00e9","\u003c"]`,
		`[1e999,12345678901234567890.10,-0,1E2]`: `[1e999,12345678901234567890.10,-0,1E2]`,
		`"a\u007f\"\\"`:                          `"a\"\\"`,
		` {"a" : [ ] } `:                         ` {"a" : [ ] } `,
	} {
		got, ok := CleanJSON([]byte(in))
		if !ok || string(got) != want {
			t.Errorf("%q: got %q (%v), want %q", in, got, ok, want)
		}
		if !json.Valid(got) {
			t.Errorf("%q: %q is not JSON", in, got)
		}
	}
}

func TestCleanJSONLeavesAloneWhatIsNoJSON(t *testing.T) {
	for _, in := range []string{"", "{", "[1,]", `{"a"}`, `"\x"`, `"\u12"`, "\"a\nb\"", "01", "1.", "tru", "nul", "[1] 2", "{1:2}", "- 1", "]"} {
		if got, ok := CleanJSON([]byte(in)); ok || string(got) != in {
			t.Errorf("%q: got %q, %v", in, got, ok)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range spelling {
		f.Add([]byte(s))
	}
	f.Add([]byte("a\x1b]0;x\x1b[31m\u009b1m\r\n\xff\u200b😀\u200d😀"))
	f.Add([]byte("🏴\U000e0067\u180e\ufe0f1\ufe0f⃣\u200c"))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		got := clean(b)
		if !bytes.Equal(b, before) {
			t.Fatal("the input was changed")
		}
		if !utf8.Valid(got) {
			t.Fatalf("%q is not UTF-8", got)
		}
		if again := clean(got); !bytes.Equal(again, got) {
			t.Fatalf("%q, cleaned again %q", got, again)
		}
		for _, r := range string(got) {
			if r < 0x20 && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && hidden(fateOf(r)) && !bytes.ContainsRune(got, blackFlag) {
				t.Fatalf("%U survived in %q", r, got)
			}
		}
	})
}

func hidden(f fate) bool { return f == dropped || f == newline || f == sequence }

func FuzzCleanJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":"\u202e","b":[1,{}],"c":null}`, `"\ud83d\ude00\ud800"`, "[\r\n-0.5e+7 , true,false ]", `{"`, "[[[[", "\xff", `["\u00`,
		`{"a":{"b":[1,2`, `[1,2,"abc`, `[12`, `"\ud83d\\ude00"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := CleanJSON(b)
		if want := json.Valid(withoutBOM(b)); ok != want {
			t.Fatalf("%q: valid %v, encoding/json says %v", b, ok, want)
		}
		if whole, closers := brokenOff(b); len(closers) > 0 {
			closed := slices.Concat(b[:whole], closers)
			if !json.Valid(closed) {
				t.Fatalf("%q closed is %q, no JSON", b, closed)
			}
		}
		if !ok {
			return
		}
		if !jsontext.Value(got).IsValid(jsontext.AllowDuplicateNames(true)) { // no lone surrogates either
			t.Fatalf("%q became %q, no JSON", b, got)
		}
		if again, _ := CleanJSON(got); !bytes.Equal(again, got) {
			t.Fatalf("%q, cleaned again %q", got, again)
		}
	})
}
