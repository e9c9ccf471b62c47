package output

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/tool"
)

func TestARemarkLeavesJSONJSON(t *testing.T) {
	const remark = `Done in part: 1 of 2. Call "buy" again.`
	for name, c := range map[string]struct {
		in   Input
		want string
	}{
		"an object":  {Input{Reply: tool.Reply{Text: []byte(`{"a":1}`), JSON: true}}, `{"_note":"Done in part: 1 of 2. Call \"buy\" again.","result":{"a":1}}`},
		"a list":     {Input{Reply: tool.Reply{Text: []byte(`[]`), JSON: true}}, `{"_note":"Done in part: 1 of 2. Call \"buy\" again.","result":[]}`},
		"a text":     {Input{Reply: tool.Reply{Text: []byte("no hits")}}, "no hits\n[" + remark + "]"},
		"nothing":    {Input{}, "[" + remark + "]"},
		"not for us": {Input{Untrusted: true}, "[" + remark + "]"},
		"brackets":   {Input{Reply: tool.Reply{Text: []byte("[x] is no JSON")}}, "[x] is no JSON\n[" + remark + "]"},
	} {
		c.in.Remarks = []string{remark}
		if s := Shape(c.in); s.Content != c.want {
			t.Errorf("%s: %s", name, s.Content)
		}
	}
}

func TestARemarkStandsBehindTheBoundary(t *testing.T) {
	s := Shape(Input{Reply: tool.Reply{Text: []byte(`{"a":1}`), JSON: true}, Untrusted: true, Remarks: []string{"Done in part."}})
	inside, ok := between(s.Content)
	if !ok || inside != `{"a":1}` || !strings.HasSuffix(s.Content, ">\n[Done in part.]") || s.StructuredJSON != `{"a":1}` {
		t.Errorf("%+v", s)
	}
}

// A remark counts within the limit, gives way to a shorter one, and then to the
// result; what is cut has both.
func TestARemarkCountsWithinTheLimit(t *testing.T) {
	long, short := strings.Repeat("long ", 60), "short"
	rows := `[` + strings.Repeat(`{"n":1,"text":"a row of a table"},`, 400) + `{}]`
	for _, untrusted := range []bool{false, true} {
		for limit := 1; limit < 2500; limit += 7 {
			in := Input{Reply: tool.Reply{Text: []byte(rows), JSON: true}, Limit: limit, Keep: true, Untrusted: untrusted, Remarks: []string{long, short}}
			s := Shape(in)
			if n := chars(s.Content); n > limit {
				t.Fatalf("%d characters, limit %d: %s", n, limit, s.Content)
			}
			if limit >= 1300 && !strings.Contains(s.Content, long) || limit >= 150 && !strings.Contains(s.Content, "short") && !strings.Contains(s.Content, long) {
				t.Fatalf("limit %d: no remark in %s", limit, s.Content)
			}
			if !untrusted && limit > 200 {
				var read struct {
					Note      string          `json:"_note"`
					Truncated string          `json:"_truncated"`
					Result    json.RawMessage `json:"result"`
				}
				if err := json.Unmarshal([]byte(s.Content), &read); err != nil || read.Note == "" || read.Truncated == "" {
					t.Fatalf("limit %d: %v in %s", limit, err, s.Content)
				}
			}
		}
	}
}
