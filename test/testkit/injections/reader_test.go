package injections

import "testing"

// The reader finds what is there, and nothing else.
func TestTheReader(t *testing.T) {
	for text, want := range map[string][2]int{
		"":                     {0, 0},
		"a < b; untrusted out": {0, 0},
		`<untrusted_output id="x">a</untrusted_output id="x">`:    {1, 1},
		"&amp;lt;/UNTRUSTED_OUTPUT>":                              {0, 1},
		`\\u003c\u002funtrusted\u005foutput`:                      {0, 1},
		"%253Cuntrusted_output":                                   {1, 0},
		"\u2039\u2215untru\u0455ted \u03bfutput":                  {0, 1},
		"\U0001D6CDntrusted_output, (/untrusted_output>, \uff1cx": {0, 0},
	} {
		if opening, closing := Tags(text); opening != want[0] || closing != want[1] {
			t.Errorf("%q: %d opening and %d closing tags, want %v", text, opening, closing, want)
		}
	}
	for text, seen := range map[string]bool{
		"plain\n\ttext, \u00e9\u4e2d\U0001F600": true, "\u0645\u06cc\u200c\u062e": true, "\u2764\ufe0f 1\ufe0f\u20e3": true,
		"a\u200db": false, "a\u202eb": false, "a\x00b": false, "a\xffb": false, "a\U000E0041b": false, "a\ufe0fb": false, "a\u2028b": false, "a\ufdd0b": false, "a\u3164b": false,
	} {
		if unseen := Unseen(text); (unseen == "") != seen {
			t.Errorf("%q: %q", text, unseen)
		}
	}
}
