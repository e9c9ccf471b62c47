package injections

import "testing"

// The reader finds what is there, and nothing else.
func TestTheReader(t *testing.T) {
	for text, seen := range map[string]bool{
		"plain\n\ttext, \u00e9\u4e2d\U0001F600": true, "\u0645\u06cc\u200c\u062e": true, "\u2764\ufe0f 1\ufe0f\u20e3": true,
		"a\u200db": false, "a\u202eb": false, "a\x00b": false, "a\xffb": false, "a\U000E0041b": false, "a\ufe0fb": false, "a\u2028b": false, "a\ufdd0b": false, "a\u3164b": false,
	} {
		if unseen := Unseen(text); (unseen == "") != seen {
			t.Errorf("%q: %q", text, unseen)
		}
	}
}
