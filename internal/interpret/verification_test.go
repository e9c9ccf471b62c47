package interpret

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/tool"
)

// refunds is a verification as the manual shows one.
var refunds = VerificationConfig{
	Args:       map[string]string{"order_id": "args.order_id"},
	DoneWhen:   "size(result.refunds.filter(r, r.cents == args.cents)) > 0",
	NotRunWhen: "size(result.refunds) == 0",
	Result:     "result.refunds[0]",
}

func compiled(t *testing.T, cfg VerificationConfig) *Verification {
	t.Helper()
	v, err := CompileVerification(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func answered200(text string) Reading {
	return Reading{Reply: tool.Reply{Status: 200, Text: []byte(text), JSON: json.Valid([]byte(text))}}
}

func TestVerificationJudges(t *testing.T) {
	about := Subject{
		CallID: tool.CallID{ID: "toolu_1", Conversation: "c1", Turn: "t1"}, IdempotencyKey: "k-1",
		Args: map[string]any{"order_id": "A-1", "cents": json.Number("500")},
	}
	definite := Reading{Reply: tool.Reply{Status: 404}, Failure: &tool.Failure{Code: tool.CodeNotFound, Evidence: tool.Definite, Status: 404}}
	down := Reading{Reply: tool.Reply{Status: 503}, Failure: &tool.Failure{Code: tool.CodeDependencyUnavailable, Status: 503}}
	cut := answered200(`{"refunds":[]}`)
	cut.Reply.Cut = true
	for name, c := range map[string]struct {
		cfg    VerificationConfig
		answer Reading
		want   Verdict
		why    string
	}{
		"there":                     {refunds, answered200(`{"refunds":[{"cents":500}]}`), Happened, ""},
		"nothing there":             {refunds, answered200(`{"refunds":[]}`), NotThere, ""},
		"something else there":      {refunds, answered200(`{"refunds":[{"cents":7}]}`), Inconclusive, "neither"},
		"the answer lacks it":       {refunds, answered200(`{}`), Inconclusive, "done_when cannot be evaluated"},
		"the answer is no JSON":     {refunds, answered200(`oops`), Inconclusive, "cannot be evaluated"},
		"the answer is cut":         {refunds, cut, Inconclusive, "too long"},
		"no answer":                 {VerificationConfig{NotRunWhen: "is_error"}, down, Inconclusive, "no answer"},
		"a definite no":             {VerificationConfig{NotRunWhen: "is_error && status == 404"}, definite, NotThere, ""},
		"both hold":                 {VerificationConfig{DoneWhen: "true", NotRunWhen: "true"}, answered200(`{}`), Inconclusive, "both"},
		"one of them fails":         {VerificationConfig{DoneWhen: "result.x > 0", NotRunWhen: "true"}, answered200(`{}`), Inconclusive, "done_when"},
		"the other one fails":       {VerificationConfig{DoneWhen: "true", NotRunWhen: "result.x > 0"}, answered200(`{}`), Inconclusive, "not_run_when"},
		"not a condition after all": {VerificationConfig{DoneWhen: "result.x"}, answered200(`{"x":"yes"}`), Inconclusive, "not true or false"},
		"by the idempotency key":    {VerificationConfig{DoneWhen: "result.key == idempotency_key"}, answered200(`{"key":"k-1"}`), Happened, ""},
		"by the ids": {
			VerificationConfig{DoneWhen: "text == tool_use_id + conversation_id + turn_id"}, answered200("toolu_1c1t1"), Happened, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := compiled(t, c.cfg).Judge(c.answer, about)
			if got.Verdict != c.want {
				t.Errorf("%v (%v), want %v", got.Verdict, got.Why, c.want)
			}
			if (got.Why == nil) != (c.why == "") || got.Why != nil && !strings.Contains(got.Why.Error(), c.why) {
				t.Errorf("why: %v, want something with %q", got.Why, c.why)
			}
		})
	}
}

func TestVerificationArguments(t *testing.T) {
	about := Subject{CallID: tool.CallID{ID: "toolu_1"}, IdempotencyKey: "k", Args: map[string]any{"order_id": "A-1", "cents": json.Number("9007199254740993")}}
	v := compiled(t, VerificationConfig{
		Args:     map[string]string{"order": "args.order_id", "cents": "args.cents", "key": "idempotency_key", "all": "[tool_use_id]"},
		DoneWhen: "true",
	})
	got, err := v.Arguments(about)
	if want := `{"all":["toolu_1"],"cents":9007199254740993,"key":"k","order":"A-1"}`; err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	if _, err := v.Arguments(Subject{Args: map[string]any{}}); err == nil || !strings.Contains(err.Error(), "args.cents") {
		t.Errorf("without its arguments: %v, want the name of what cannot be evaluated", err)
	}
}

func TestVerificationKnowsWhetherItReadsTheArguments(t *testing.T) {
	for text, want := range map[string]bool{
		"result.a == args.a":                          true,
		"result.items.exists(i, i.id == args['id'])":  true,
		"result.key == idempotency_key":               false,
		"result.args == 1 && text.contains('args.a')": false,
	} {
		if got := compiled(t, VerificationConfig{NotRunWhen: text}).ReadsArgs(); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	v := compiled(t, VerificationConfig{Args: map[string]string{"a": "args.a"}, DoneWhen: "true"})
	if !v.ReadsArgs() {
		t.Error("what the arguments are made of counts too")
	}
}

func TestVerificationResult(t *testing.T) {
	reply := func(result string) *tool.Reply {
		return compiled(t, VerificationConfig{DoneWhen: "true", Result: result}).
			Judge(answered200(`{"id":"r-1","n":[1,2]}`), Subject{}).Result
	}
	if got := reply("{'refund': result.id, 'n': result.n}"); got == nil || string(got.Text) != `{"n":[1,2],"refund":"r-1"}` || !got.JSON {
		t.Errorf("an object: %v", got)
	}
	if got := reply("'refund ' + result.id"); got == nil || string(got.Text) != "refund r-1" || got.JSON {
		t.Errorf("a text: %v", got)
	}
	if got := reply("result.absent"); got != nil {
		t.Errorf("what the answer lacks: %v", got)
	}
	if got := reply(""); got != nil {
		t.Errorf("without an expression: %v", got)
	}
}

func TestVerificationNamesEveryKeyThatDoesNotCompile(t *testing.T) {
	_, err := CompileVerification(VerificationConfig{
		Args: map[string]string{"a": "arg.x", "b": "", "c": "result.x"}, DoneWhen: "1 + 1", NotRunWhen: "(", Result: "resul",
	})
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%v", err)
	}
	said := map[string]string{}
	for _, err := range several.Unwrap() {
		var key *KeyError
		if !errors.As(err, &key) {
			t.Fatalf("%v names no key", err)
		}
		said[strings.Join(key.Key, ".")] = key.Reason
	}
	for key, want := range map[string]string{
		"args.a": `did you mean "args"?`, "args.b": "missing", "args.c": "undeclared", "done_when": "true or false", "not_run_when": "column", "result": `"result"`,
	} {
		if !strings.Contains(said[key], want) {
			t.Errorf("%s: %q, want something with %q", key, said[key], want)
		}
	}
	if _, err := CompileVerification(VerificationConfig{}); err == nil || !strings.Contains(err.Error(), "never decide") {
		t.Errorf("without any condition: %v", err)
	}
}
