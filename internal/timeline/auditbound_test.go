package timeline

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// An audit holds no more of what agents have written than it shows, however much it reads.
func TestAnAuditHoldsLittleHoweverMuchItReads(t *testing.T) {
	t.Parallel()
	var a Audit
	letters := strings.NewReplacer("0", "a", "1", "b")
	for n := range maxMessages + 10 {
		own := letters.Replace(strconv.FormatInt(int64(n), 2))
		a.Add("c", &Timeline{Events: []Event{{Call: &Call{Tool: own, Text: own + strings.Repeat("é", maxExample), Failure: &Failure{}}}}})
	}
	r := a.Report()
	if len(r.Messages) != maxMessages || r.MessagesLeft != 10 || len(r.Tools) != maxMessages || r.ToolsLeft != 10 {
		t.Errorf("%d texts and %d tools are told apart, and %d and %d are left", len(r.Messages), len(r.Tools), r.MessagesLeft, r.ToolsLeft)
	}
	for _, m := range r.Messages {
		if n := utf8.RuneCountInString(m.Example); n > maxExample {
			t.Fatalf("%d characters of one are held", n)
		}
	}
}
