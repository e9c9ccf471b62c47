package timeline_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/timeline"
	"github.com/sidecall/sidecall/internal/tool"
)

// An error is recovered from by a later success of its tool in its prompt.
func TestWhatCountsAsRecovered(t *testing.T) {
	const one, none = `{"order_id":"A-1"}`, `{}`
	for name, c := range map[string]struct {
		talk  *talk
		fate  timeline.Fate // of the error under the id e
		first string
	}{
		"the tool works later":                   {new(talk).user("pay").call("e", "pay", none, invalid("1"), true).call("b", "pay", one, "ok", false).model("done"), timeline.Recovered, ""},
		"another tool works":                     {new(talk).user("pay").call("e", "pay", none, invalid("1"), true).call("b", "look", one, "ok", false).model("sorry"), timeline.GaveUp, "e"},
		"it works in the next prompt":            {new(talk).user("pay").call("e", "pay", none, invalid("1"), true).model("which?").user("A-1").call("b", "pay", one, "ok", false).model("done"), timeline.GaveUp, "e"},
		"it has worked before":                   {new(talk).user("pay").call("b", "pay", one, "ok", false).call("e", "pay", none, invalid("1"), true).model("sorry"), timeline.GaveUp, "e"},
		"the prompt goes on":                     {new(talk).user("pay").call("e", "pay", none, invalid("1"), true), timeline.Open, "e"},
		"a call is open":                         {new(talk).user("pay").call("e", "pay", none, invalid("1"), true).asks("b", "pay", one), timeline.Open, "e"},
		"the user goes on in the same breath":    {new(talk).user("pay").user("A-1").call("e", "pay", none, invalid("1"), true).call("b", "pay", one, "ok", false), timeline.Recovered, ""},
		"a tool that there is not, another does": {new(talk).user("pay").call("e", "pey", one, rendered(tool.CodeUnknownTool, "", "no such tool", "pey", "Did you mean pay?"), true).call("b", "pay", one, "ok", false), timeline.Recovered, ""},
		"in the same turn": {new(talk).user("pay").
			raw(`{"role":"assistant","content":[{"type":"tool_use","id":"e","name":"pay","input":{}},{"type":"tool_use","id":"b","name":"pay","input":{}}]}`).
			raw(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"e","content":"no","is_error":true},{"type":"tool_result","tool_use_id":"b","content":"ok"}]}`).
			model("half of it"), timeline.GaveUp, "e"},
		"text beside results goes on": {new(talk).user("pay").asks("e", "pay", none).
			raw(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"e","content":"no","is_error":true},{"type":"text","text":"hurry"}]}`).
			call("b", "pay", one, "ok", false), timeline.Recovered, ""},
	} {
		t.Run(name, func(t *testing.T) {
			line := c.talk.built()
			if f := called(t, line, "e").Failure; f == nil || f.Fate != c.fate || first(line) != c.first {
				t.Errorf("%+v, the first is %q", f, first(line))
			}
		})
	}
}

// What a model does after an error is its next reply: what it said, and its next call of
// the same tool, with what it has changed.
func TestWhatTheModelDidNext(t *testing.T) {
	for name, c := range map[string]struct {
		talk *talk
		want timeline.Next
	}{
		"it corrects": {new(talk).call("e", "pay", `{"order_id":"1","cents":5,"b":{"c":1}}`, invalid("1"), true).call("b", "pay", `{"order_id":"A-1","b":{"c":2},"why":"x"}`, "ok", false),
			timeline.Next{Tool: "pay", Differences: []string{`b: {"c":2}, was {"c":1}`, `cents: left out, was 5`, `order_id: "A-1", was "1"`, `why: "x", was left out`}}},
		"the same, written otherwise": {new(talk).call("e", "pay", `{"a":1,"b":2}`, "no", true).call("b", "pay", `{"b": 2, "a": 1}`, "ok", false), timeline.Next{Tool: "pay", Again: true}},
		"another tool":                {new(talk).call("e", "pay", `{}`, "no", true).call("b", "look", `{}`, "ok", false), timeline.Next{Tool: "look"}},
		"it says something":           {new(talk).call("e", "pay", `{}`, "no", true).model("I am sorry."), timeline.Next{Text: "I am sorry."}},
		"nothing":                     {new(talk).call("e", "pay", `{}`, "no", true), timeline.Next{Nothing: true}},
		"the user is next":            {new(talk).call("e", "pay", `{}`, "no", true).user("hello?").model("yes"), timeline.Next{Nothing: true}},
		"too long":                    {new(talk).call("e", "pay", `{"a":"`+strings.Repeat("x", 9<<10)+`"}`, "no", true).call("b", "pay", `{}`, "ok", false), timeline.Next{Tool: "pay", Differences: []string{"its arguments are too long to compare"}}},
		"many":                        {new(talk).call("e", "pay", `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1}`, "no", true).call("b", "pay", `{}`, "ok", false), timeline.Next{Tool: "pay", Differences: []string{"a: left out, was 1", "b: left out, was 1", "c: left out, was 1", "d: left out, was 1", "e: left out, was 1", "f: left out, was 1", "g: left out, was 1", "h: left out, was 1", "and more"}}},
		"no object":                   {new(talk).call("e", "pay", `"{"`, "no", true).call("b", "pay", `{}`, "ok", false), timeline.Next{Tool: "pay", Differences: []string{"its arguments are not known"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := called(t, c.talk.built(), "e").Failure.Next
			if got.Text != c.want.Text || got.Tool != c.want.Tool || got.Again != c.want.Again || got.Nothing != c.want.Nothing || !slices.Equal(got.Differences, c.want.Differences) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Why a text was of little help, where a program can tell.
func TestWhatIsVague(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want timeline.Vagueness
	}{
		"all that is needed": {invalid("1"), 0},
		"plain":              {"Error: the payment amount does not add up: 305, paid 255", timeline.Formless},
		"plain and short":    {"Error", timeline.Formless | timeline.Short},
		"its code":           {rendered(tool.CodeInternal, "", "the sidecar failed on this call", "", "Tell the operator err_1."), timeline.Meaningless},
		"nothing of use":     {rendered(tool.CodeUnrecoverable, "", "", "failed", ""), timeline.Meaningless | timeline.Fieldless | timeline.Unconstrained | timeline.Hintless | timeline.Short},
		"a wait has no field": {rendered(tool.CodeRateLimited, "", "the upstream takes no more for now", "429", "Call it again after 3s."),
			0},
	} {
		t.Run(name, func(t *testing.T) {
			line := new(talk).call("e", "pay", `{}`, c.text, true).model("Sorry.").built()
			if f := called(t, line, "e").Failure; f.Vague != c.want || called(t, line, "e").Text != c.text {
				t.Errorf("%v", f.Vague.Reasons())
			}
		})
	}
	again := new(talk).call("e", "pay", `{}`, invalid("1"), true).call("b", "pay", `{}`, invalid("1"), true).built()
	if f := called(t, again, "e").Failure; f.Vague != timeline.Repeated || len(f.Vague.Reasons()) != 1 {
		t.Errorf("%v", f.Vague.Reasons())
	}
}

// A model spins that is told the same of the same tool three times in a prompt, or whom the
// loop guard refuses.
func TestWhatSpins(t *testing.T) {
	spun := func(k *talk) (all int) {
		for e := range k.built().Calls {
			if e.Call.Failure.Spun {
				all++
			}
		}
		return all
	}
	three := new(talk).call("a", "pay", `{"a":1}`, invalid("1"), true).call("b", "pay", `{"a":2}`, invalid("1"), true)
	if got := spun(three); got != 0 {
		t.Errorf("twice: %d", got)
	}
	if got := spun(three.call("c", "pay", `{"a":3}`, invalid("1"), true)); got != 3 {
		t.Errorf("three times: %d", got)
	}
	if got := spun(three.call("d", "look", `{}`, invalid("1"), true).call("e", "pay", `{}`, invalid("2"), true)); got != 3 {
		t.Errorf("another tool, and another text: %d", got)
	}
	apart := new(talk).call("a", "pay", `{}`, "no", true).call("b", "pay", `{}`, "no", true).user("again").call("c", "pay", `{}`, "no", true)
	if got := spun(apart); got != 0 {
		t.Errorf("in two prompts: %d", got)
	}
	if got := spun(new(talk).call("a", "pay", `{}`, rendered(tool.CodeLoopDetected, "", "the same call", "pay", "Try another way."), true)); got != 1 {
		t.Errorf("refused by the loop guard: %d", got)
	}
}
