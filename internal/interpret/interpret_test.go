package interpret_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/tool"
)

// answer is a JSON reply with a status.
func answer(status int, text string) tool.Reply {
	return tool.Reply{
		Status: status, Text: []byte(text), JSON: json.Valid([]byte(text)),
		Header: map[string]string{"content-type": "application/json", "x-plan": "free"},
	}
}

// refusal is the failure that the http backend makes of a status.
func refusal(status int, code tool.Code, evidence tool.Evidence) *tool.Failure {
	return &tool.Failure{
		Code: code, Evidence: evidence, Status: status, CallerFault: evidence == tool.Definite,
		Message: "said the upstream", RetryAfter: time.Second, ErrorType: "status",
	}
}

func compile(t *testing.T, cfg interpret.Config) *interpret.Program {
	t.Helper()
	p, err := interpret.Compile(cfg)
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return p
}

func TestErrorRules(t *testing.T) {
	p := compile(t, interpret.Config{Errors: []interpret.Rule{
		{When: `status == 404`, Code: tool.CodeNotFound, Hint: "Call search_orders.", AllowedAlternatives: []string{"search_orders"}, Field: "order_id"},
		{When: `body.code == "SOLD_OUT"`, Code: tool.CodeBusinessRule},
		{When: `body.code == "BUSY"`, Code: tool.CodeRateLimited},
		{When: `body.code == "QUEUED_OUT"`, Code: tool.CodeOverloaded, NotExecuted: true},
		{When: `headers["x-plan"] == "expired"`, Code: tool.CodePermissionDenied},
		{When: `text.contains("no such user")`, Code: tool.CodeNotFound},
		{When: `is_error && body.limit > 10`, Code: tool.CodeConflict},
		{When: `args.dry_run == true && status == 200`, Code: tool.CodeUnrecoverable},
		{When: `status == 500 && body.detail.matches("^duplicate")`, Code: tool.CodeConflict},
	}})
	for name, c := range map[string]struct {
		reply    tool.Reply
		raw      *tool.Failure
		args     map[string]any
		code     tool.Code // empty: no failure
		evidence tool.Evidence
		caller   bool
	}{
		"a status is mapped":                        {reply: answer(404, `{}`), raw: refusal(404, tool.CodeNotFound, tool.Definite), code: tool.CodeNotFound, evidence: tool.Definite, caller: true},
		"a success turns into an error":             {reply: answer(200, `{"code":"SOLD_OUT","message":"none left"}`), code: tool.CodeBusinessRule, evidence: tool.Definite, caller: true},
		"a transient code stays ambiguous":          {reply: answer(200, `{"code":"BUSY"}`), code: tool.CodeRateLimited, evidence: tool.Ambiguous},
		"unless the rule says not executed":         {reply: answer(503, `{"code":"QUEUED_OUT"}`), raw: refusal(503, tool.CodeDependencyUnavailable, tool.Ambiguous), code: tool.CodeOverloaded, evidence: tool.NotExecuted},
		"or the backend has proved it":              {reply: answer(429, `{"code":"BUSY"}`), raw: refusal(429, tool.CodeRateLimited, tool.NotExecuted), code: tool.CodeRateLimited, evidence: tool.NotExecuted},
		"but a hard code is the answer":             {reply: answer(429, `{"code":"SOLD_OUT"}`), raw: refusal(429, tool.CodeRateLimited, tool.NotExecuted), code: tool.CodeBusinessRule, evidence: tool.Definite, caller: true},
		"text that is not JSON":                     {reply: answer(200, "error: no such user"), code: tool.CodeNotFound, evidence: tool.Definite, caller: true},
		"an ambiguous 500 becomes definite":         {reply: answer(500, `{"detail":"duplicate order"}`), raw: refusal(500, tool.CodeDependencyUnavailable, tool.Ambiguous), code: tool.CodeConflict, evidence: tool.Definite, caller: true},
		"a number in the body":                      {reply: answer(400, `{"limit":11}`), raw: refusal(400, tool.CodeUnrecoverable, tool.Definite), code: tool.CodeConflict, evidence: tool.Definite, caller: true},
		"an argument":                               {reply: answer(200, `{"a":1}`), args: map[string]any{"dry_run": true}, code: tool.CodeUnrecoverable, evidence: tool.Definite, caller: true},
		"what no rule matches stays as it was":      {reply: answer(502, `{}`), raw: refusal(502, tool.CodeDependencyUnavailable, tool.Ambiguous), code: tool.CodeDependencyUnavailable, evidence: tool.Ambiguous},
		"missing keys do not match":                 {reply: answer(200, `{"other":1}`)},
		"no JSON at all does not match":             {reply: answer(200, `plain`)},
		"a failure without an answer is not mapped": {raw: &tool.Failure{Code: tool.CodeTimeout, Evidence: tool.Ambiguous}, reply: answer(404, ``), code: tool.CodeTimeout, evidence: tool.Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			reading := p.Interpret(c.reply, c.raw, c.args)
			if c.code == "" {
				if reading.Failure != nil {
					t.Fatalf("failure = %v, want none", reading.Failure)
				}
				return
			}
			f := reading.Failure
			if f == nil || reading.Outcome != interpret.Failed {
				t.Fatalf("reading = %+v, want %s", reading, c.code)
			}
			if f.Code != c.code || f.Evidence != c.evidence || f.CallerFault != c.caller {
				t.Errorf("failure = %s %s caller=%v, want %s %s caller=%v", f.Code, f.Evidence, f.CallerFault, c.code, c.evidence, c.caller)
			}
		})
	}
}

func TestARuleGivesItsAdviceAndKeepsWhatTheUpstreamSaid(t *testing.T) {
	p := compile(t, interpret.Config{Errors: []interpret.Rule{
		{When: `status == 404`, Code: tool.CodeNotFound, Hint: "Call search.", Field: "id", AllowedAlternatives: []string{"search"}},
		{When: `body.error != ""`, Code: tool.CodeBusinessRule},
	}})
	raw := refusal(404, tool.CodeNotFound, tool.Definite)
	got := p.Interpret(answer(404, `{}`), raw, nil).Failure
	want := &tool.Failure{
		Code: tool.CodeNotFound, Evidence: tool.Definite, CallerFault: true, Status: 404, ErrorType: "status",
		Message: "said the upstream", RetryAfter: time.Second,
		Hint: "Call search.", Field: "id", AllowedAlternatives: []string{"search"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if raw.Hint != "" {
		t.Error("the backend's own failure was changed")
	}
	mapped := p.Interpret(answer(200, `{"error":"card declined"}`), nil, nil).Failure
	if mapped == nil || mapped.Message != "card declined" {
		t.Errorf("failure = %+v, want the message of the reply", mapped)
	}
}

func TestSuccessCondition(t *testing.T) {
	p := compile(t, interpret.Config{Success: `exit_code == 0 || exit_code == 1 || body.ok == true`})
	exit := func(code int) tool.Reply { return tool.Reply{Status: code, Text: []byte("out")} }
	if r := p.Interpret(exit(1), refusal(1, tool.CodeUnrecoverable, tool.Definite), nil); r.Failure != nil || r.Outcome != interpret.OK {
		t.Errorf("exit code 1 = %v, want success", r.Failure)
	}
	if r := p.Interpret(exit(2), refusal(2, tool.CodeUnrecoverable, tool.Definite), nil); r.Failure == nil {
		t.Error("exit code 2 is a success, want the backend's failure")
	}
	r := p.Interpret(answer(200, `{"ok":false,"message":"nope"}`), nil, nil)
	if r.Failure == nil || r.Failure.Code != tool.CodeUnrecoverable || r.Failure.Evidence != tool.Definite || r.Failure.Message != "nope" {
		t.Errorf("ok:false = %+v, want a definite failure that says nope", r.Failure)
	}
	if r := p.Interpret(tool.Reply{}, &tool.Failure{Code: tool.CodeTimeout}, nil); r.Failure == nil || r.Failure.Code != tool.CodeTimeout {
		t.Errorf("a timeout = %+v, want it untouched", r.Failure)
	}
}

func TestEmptiness(t *testing.T) {
	var none *interpret.Program
	for text, want := range map[string]interpret.Outcome{
		"": interpret.Empty, " \n\t": interpret.Empty, "null": interpret.Empty, "[]": interpret.Empty, "[ \n ]": interpret.Empty,
		"{}": interpret.Empty, `""`: interpret.Empty, strings.Repeat(" ", 500): interpret.Empty,
		"0": interpret.OK, "false": interpret.OK, `{"items":[]}`: interpret.OK, "[0]": interpret.OK, "no results": interpret.OK,
		strings.Repeat(" ", 500) + "x": interpret.OK,
	} {
		if got := none.Interpret(tool.Reply{Text: []byte(text)}, nil, nil).Outcome; got != want {
			t.Errorf("%.20q is %s, want %s", text, got, want)
		}
	}
	for name, reply := range map[string]tool.Reply{
		"blocks":     {Blocks: []tool.Block{{Type: "image"}}},
		"binary":     {Binary: "image/png", Size: 3},
		"structured": {Structured: json.RawMessage(`{"a":1}`)},
		"cut":        {Cut: true},
	} {
		if got := none.Interpret(reply, nil, nil).Outcome; got != interpret.OK {
			t.Errorf("%s is %s, want ok", name, got)
		}
	}
}

func TestEmptyWhen(t *testing.T) {
	p := compile(t, interpret.Config{EmptyWhen: `size(result.items) == 0`})
	for text, want := range map[string]interpret.Outcome{
		`{"items":[]}`: interpret.Empty, `{"items":[1]}`: interpret.OK, `{}`: interpret.OK, `plain`: interpret.OK,
	} {
		if got := p.Interpret(answer(200, text), nil, nil).Outcome; got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

func TestResultSelection(t *testing.T) {
	for name, c := range map[string]struct {
		result, body, want string
		json               bool
	}{
		"a member, as the upstream wrote it":  {`/data/items`, `{"x":[1],"data":{"items":[{"n":1.50, "big":12345678901234567890}]}}`, `[{"n":1.50, "big":12345678901234567890}]`, true},
		"an item of a list":                   {`/1/id`, `[{"id":1},{"id":2}]`, `2`, true},
		"a member whose name has a slash":     {`/a~1b/c~0d`, `{"a/b":{"c~d":true}}`, `true`, true},
		"a text is shown as text":             {`/message`, `{"message":"hello \"you\""}`, `hello "you"`, false},
		"an expression":                       {`body.items.map(i, i.id)`, `{"items":[{"id":1},{"id":2}]}`, `[1,2]`, true},
		"an expression that makes an object":  {`{"n": size(body), "first": body[0], "none": null}`, `["<a>","b"]`, `{"first":"<a>","n":2,"none":null}`, true},
		"an expression that falls back":       {`body.?a.orValue(7)`, `{}`, `7`, true},
		"an expression that makes a text":     {`body.a + "!"`, `{"a":"hey"}`, `hey!`, false},
		"the same text with escapes selected": {`/a`, `{"a":"\u00e9"}`, `é`, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := compile(t, interpret.Config{Result: c.result})
			r := p.Interpret(answer(200, c.body), nil, nil)
			if r.Failure != nil {
				t.Fatal(r.Failure)
			}
			if got := string(r.Reply.Text); got != c.want || r.Reply.JSON != c.json {
				t.Errorf("result = %s (JSON %v), want %s (JSON %v)", got, r.Reply.JSON, c.want, c.json)
			}
		})
	}
}

func TestAResultThatIsNotThere(t *testing.T) {
	for _, c := range []struct{ result, body string }{
		{`/data/items`, `{"data":{}}`}, {`/data/items`, `{"data":3}`}, {`/data/items`, `<html>`}, {`/0`, `[]`}, {`/5`, `[1]`}, {`/x`, `[1]`},
		{`/-1`, `[1]`}, {`body.a.b`, `{"a":{}}`}, {`body.a`, `plain`},
	} {
		r := compile(t, interpret.Config{Result: c.result}).Interpret(answer(200, c.body), nil, nil)
		if r.Failure == nil || r.Failure.Code != tool.CodeInvalidOutput || r.Failure.Evidence != tool.Definite || !strings.Contains(r.Failure.Constraint, c.result) {
			t.Errorf("%s of %s: %+v, want INVALID_OUTPUT that names it", c.result, c.body, r.Failure)
		}
	}
	cut := tool.Reply{Text: []byte(`{"data":[1,2`), Cut: true}
	if r := compile(t, interpret.Config{Result: "/data"}).Interpret(cut, nil, nil); r.Failure != nil || string(r.Reply.Text) != `{"data":[1,2` {
		t.Errorf("a reply that was cut: %+v, want it as it is", r)
	}
}

func TestRulesAndEmptinessSeeTheSelectedResult(t *testing.T) {
	for _, result := range []string{"/data", "body.data"} {
		p := compile(t, interpret.Config{
			Result: result, EmptyWhen: "result.n == 0 && body.total == 0",
			Errors: []interpret.Rule{{When: `result.state == "failed"`, Code: tool.CodeBusinessRule}},
		})
		if r := p.Interpret(answer(200, `{"data":{"state":"failed"}}`), nil, nil); r.Failure == nil {
			t.Errorf("%s: the rule did not match", result)
		}
		if r := p.Interpret(answer(200, `{"data":{"n":0},"total":0}`), nil, nil); r.Outcome != interpret.Empty {
			t.Errorf("%s: outcome = %s, want empty", result, r.Outcome)
		}
	}
}

// Parsers in use keep the last of two members with one name: what the rules judge is what the model sees.
func TestOfTwoMembersWithOneNameTheLastCounts(t *testing.T) {
	p := compile(t, interpret.Config{Result: "/data", Errors: []interpret.Rule{{When: `result.n != body.data.n`, Code: tool.CodeBusinessRule}}})
	r := p.Interpret(answer(200, `{"data":{"n":1},"x":[],"data":{"n":2}}`), nil, nil)
	if got := string(r.Reply.Text); r.Failure != nil || got != `{"n":2}` {
		t.Errorf("the model sees %s, failure %+v", got, r.Failure)
	}
}

func TestPartialSuccess(t *testing.T) {
	p := compile(t, interpret.Config{Partial: &interpret.PartialRule{
		Items: "body.results", OK: `item.status == "done"`, Content: "item.id", Error: `item.error.message + " at " + string(index)`,
	}})
	r := p.Interpret(answer(207, `{"results":[{"status":"done","id":"A"},{"status":"failed","error":{"message":"no stock"}},{"status":"done","id":3},{}]}`), nil, nil)
	if r.Outcome != interpret.Partial || r.Failure != nil {
		t.Fatalf("reading = %+v, want partial", r)
	}
	want := []interpret.Item{
		{Index: 0, OK: true, Content: "A"},
		{Index: 1, Error: &tool.Error{Code: tool.CodeUnrecoverable, Constraint: "item 1 was not done", Received: "no stock at 1"}},
		{Index: 2, OK: true, Content: "3"},
		{Index: 3, Error: &tool.Error{Code: tool.CodeUnrecoverable, Constraint: "item 3 was not done", Received: "{}"}},
	}
	if diff := cmp.Diff(want, r.Items, cmpopts.IgnoreFields(tool.Error{}, "Hint")); diff != "" {
		t.Error(diff)
	}
	for text, outcome := range map[string]interpret.Outcome{
		`{"results":[{"status":"done","id":"A"}]}`: interpret.OK,
		`{"results":[]}`: interpret.OK,
		`{"other":1}`:    interpret.OK,
		`{"results":3}`:  interpret.OK,
		`{"results":[{"status":"failed","error":{"message":"no stock"}}]}`: interpret.Failed,
	} {
		r := p.Interpret(answer(200, text), nil, nil)
		if r.Outcome != outcome {
			t.Errorf("%s is %s, want %s", text, r.Outcome, outcome)
		}
		if outcome == interpret.Failed && (r.Failure.Message != "no stock at 0" || len(r.Items) != 1) {
			t.Errorf("failure = %+v items = %+v, want the first item's words", r.Failure, r.Items)
		}
	}
}

func TestPartialReportsABoundedNumberOfItems(t *testing.T) {
	p := compile(t, interpret.Config{Partial: &interpret.PartialRule{Items: "body", OK: "item != 4999"}})
	text := "[" + strings.Repeat("1,", 4999) + "4999]"
	r := p.Interpret(answer(200, text), nil, nil)
	if len(r.Items) != 1000 {
		t.Errorf("%d items, want 1000", len(r.Items))
	}
	if r.Outcome != interpret.Partial {
		t.Errorf("outcome = %s, want partial: the last item was not done", r.Outcome)
	}
}

func TestOutputSchema(t *testing.T) {
	p := compile(t, interpret.Config{Check: func(result json.RawMessage) error {
		if string(result) != `{"id":1}` {
			return errors.New("id is missing")
		}
		return nil
	}})
	if r := p.Interpret(answer(200, `{"id":1}`), nil, nil); r.Failure != nil {
		t.Error(r.Failure)
	}
	if r := p.Interpret(tool.Reply{Text: []byte("see below"), Structured: json.RawMessage(`{"id":1}`)}, nil, nil); r.Failure != nil {
		t.Error(r.Failure)
	}
	for _, text := range []string{`{"id":2}`, `plain`} {
		r := p.Interpret(answer(200, text), nil, nil)
		if r.Failure == nil || r.Failure.Code != tool.CodeInvalidOutput || r.Failure.Evidence != tool.Definite {
			t.Errorf("%s: %+v, want INVALID_OUTPUT", text, r.Failure)
		}
	}
	if r := p.Interpret(tool.Reply{Text: []byte(`{"id`), Cut: true}, nil, nil); r.Failure != nil {
		t.Errorf("a reply that was cut cannot be checked: %v", r.Failure)
	}
}

func TestAnExpensiveExpressionDoesNotMatch(t *testing.T) {
	p := compile(t, interpret.Config{Errors: []interpret.Rule{{
		When: `body.all(a, body.all(b, body.all(c, a + b + c >= 0)))`, Code: tool.CodeConflict,
	}}})
	text := "[" + strings.Repeat("1,", 1999) + "1]"
	if r := p.Interpret(answer(200, text), nil, nil); r.Failure != nil {
		t.Errorf("eight billion steps were made: %v", r.Failure)
	}
}

func TestArgumentsAreNumbers(t *testing.T) {
	p := compile(t, interpret.Config{EmptyWhen: `args.limit > 5 && args.list[0] == 2.5 && args.deep.n == 1`})
	args := map[string]any{"limit": json.Number("6"), "list": []any{json.Number("2.5")}, "deep": map[string]any{"n": json.Number("1")}}
	if r := p.Interpret(answer(200, `[1]`), nil, args); r.Outcome != interpret.Empty {
		t.Errorf("outcome = %s, want empty", r.Outcome)
	}
}

func TestConcurrentUse(t *testing.T) {
	p := compile(t, interpret.Config{Result: "/a", EmptyWhen: "size(result) == 0"})
	for range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for range 100 {
				if r := p.Interpret(answer(200, `{"a":[]}`), nil, nil); r.Outcome != interpret.Empty {
					t.Fatal(r.Outcome)
				}
			}
		})
	}
}

func FuzzSelection(f *testing.F) {
	f.Add("/a/0/b", `{"a":[{"b":1}]}`)
	f.Add("/", `{"":1}`)
	f.Add("/~0~1", `{"~/":"x"}`)
	f.Fuzz(func(t *testing.T, pointer, body string) {
		if !strings.HasPrefix(pointer, "/") {
			return
		}
		p, err := interpret.Compile(interpret.Config{Result: pointer})
		if err != nil {
			return
		}
		r := p.Interpret(answer(200, body), nil, nil)
		if r.Failure == nil && r.Reply.JSON && !json.Valid(r.Reply.Text) {
			t.Errorf("%q of %q is not JSON: %q", pointer, body, r.Reply.Text)
		}
	})
}

func BenchmarkInterpret(b *testing.B) {
	reply := answer(200, `{"items":[{"id":1,"name":"one"},{"id":2,"name":"two"}],"total":2}`)
	for name, cfg := range map[string]interpret.Config{
		"plain":      {},
		"status":     {Errors: []interpret.Rule{{When: "status == 404", Code: tool.CodeNotFound}}},
		"empty_when": {EmptyWhen: "size(result.items) == 0"},
	} {
		p, err := interpret.Compile(cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Interpret(reply, nil, nil)
			}
		})
	}
}
