package interpret_test

import (
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/tool"
)

// mostTime is what reading one small reply may take, on a busy machine and
// while fuzzing.
const mostTime = 20 * time.Second

// FuzzRules: any text is an expression or an error that names its place; and an
// expression reads any reply, in bounded time, as one of the four outcomes.
func FuzzRules(f *testing.F) {
	for _, when := range []string{
		`status == 404`, `body.code == "SOLD_OUT"`, `body.items.all(i, i.n > 1)`, `text.matches("^(a+)+$")`, `1/0 == 1`, `body`,
		`size(result) == 0`, `headers["x"] == "y" && !is_error`, `args.a.b.c == null`, `body[9223372036854775807]`, `"a" + `, `text + text + text == text`,
		`[1,2,3].map(x, [1,2,3].map(y, [1,2,3].map(z, x*y*z))).size() > 0`, `body.?a.orValue([]).size() == 0`, `duration("x") > duration("1s")`,
		`text.replace("", text).size() > 1`, `text.split("").exists(c, text.split("").exists(d, c == d))`, `timestamp(text) > timestamp("2026-11-21T00:00:00Z")`,
	} {
		for _, body := range []string{`{"code":"SOLD_OUT","items":[{"n":1}]}`, `aaaaaaaaaaaaaaaaaaaaaaaaaaaa!`, `[[[[null]]]]`, ``, `1e999`, "\xff"} {
			f.Add(when, body, int64(len(body)*7), true)
		}
	}
	f.Fuzz(func(t *testing.T, when, body string, status int64, failed bool) {
		if len(when) > 1<<10 || len(body) > 4<<10 {
			return
		}
		defer time.AfterFunc(mostTime, func() { panic("it takes longer than " + mostTime.String()) }).Stop()
		for _, cfg := range []interpret.Config{
			{Errors: []interpret.Rule{{When: when, Code: tool.CodeRateLimited}}},
			{Success: when, EmptyWhen: when},
			{Result: when},
			{Partial: &interpret.PartialRule{Items: when, OK: "item == item", Content: "item", Error: "string(index)"}},
		} {
			p, err := interpret.Compile(cfg)
			if err != nil {
				if !utf8.ValidString(err.Error()) && utf8.ValidString(when) || len(err.Error()) > 100*len(when)+4<<10 {
					t.Fatalf("%d bytes about %q: %.500q", len(err.Error()), when, err)
				}
				continue
			}
			var raw *tool.Failure
			if failed {
				raw = refusal(500, tool.CodeDependencyUnavailable, tool.Ambiguous)
			}
			reply := tool.Reply{Status: int(status), Text: []byte(body), JSON: json.Valid([]byte(body)), Header: map[string]string{"x": body}}
			checkReading(t, p.Interpret(reply, raw, map[string]any{"a": json.Number("1e999"), "b": body}))
		}
	})
}

// checkReading holds a reading to what the pipeline relies on.
func checkReading(t *testing.T, r interpret.Reading) {
	t.Helper()
	if (r.Outcome == interpret.Failed) != (r.Failure != nil) {
		t.Fatalf("outcome %s, failure %+v", r.Outcome, r.Failure)
	}
	if r.Failure != nil && (r.Failure.Code == "" || r.Failure.ErrorType == "") {
		t.Errorf("%+v", r.Failure)
	}
	if r.Failure == nil && r.Reply.JSON && !json.Valid(r.Reply.Text) {
		t.Errorf("no JSON: %q", r.Reply.Text)
	}
	for _, item := range r.Items {
		if item.OK != (item.Error == nil) {
			t.Errorf("item %+v", item)
		}
	}
}
