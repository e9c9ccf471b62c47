package timeline_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/timeline"
	"github.com/sidecall/sidecall/internal/tool"
)

// The same conversation reads the same in each wire format.
func TestAConversationInEachFormat(t *testing.T) {
	const want = `0 user pay A-1
0 model I pay.
0 c1 pay({"order_id":"A-1"}) no
0 c1 look({}) found
0 model It is paid.
1 user and A-2?
`
	for format, messages := range map[provider.Format][]string{
		provider.Anthropic: {
			`{"role":"user","content":"pay A-1"}`,
			`{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"I pay."},{"type":"tool_use","id":"c1","name":"pay","input":{"order_id":"A-1"}}]}`,
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":[{"type":"text","text":"no"}]}]}`,
			`{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"look","input":{}}]}`,
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"found"}]}`,
			`{"role":"assistant","content":"It is paid."}`,
			`{"role":"user","content":[{"type":"text","text":"and A-2?"}]}`,
		},
		provider.OpenAI: {
			`{"role":"system","content":"be kind"}`,
			`{"role":"user","content":"pay A-1"}`,
			`{"role":"assistant","content":"I pay.","tool_calls":[{"id":"c1","type":"function","function":{"name":"pay","arguments":"{\"order_id\":\"A-1\"}"}}]}`,
			`{"role":"tool","tool_call_id":"c1","content":"no"}`,
			`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":""}}]}`,
			`{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"found"}]}`,
			`{"role":"user","content":[{"type":"text","text":"Returned by c1:"},{"type":"image_url","image_url":{"url":"data:x"}}]}`,
			`{"role":"assistant","content":[{"type":"text","text":"It is paid."}]}`,
			`{"role":"user","content":"and A-2?"}`,
		},
		provider.OpenAIResponses: {
			`{"role":"developer","content":"be kind"}`,
			`{"role":"user","content":"pay A-1"}`,
			`{"type":"reasoning","id":"r","summary":[]}`,
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I pay."}]}`,
			`{"type":"function_call","call_id":"c1","name":"pay","arguments":"{\"order_id\":\"A-1\"}"}`,
			`{"type":"function_call_output","call_id":"c1","output":"no"}`,
			`{"type":"function_call","call_id":"c1","name":"look","arguments":"{}"}`,
			`{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"found"}]}`,
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"It is paid."}]}`,
			`{"role":"user","content":[{"type":"input_text","text":"and A-2?"}]}`,
		},
	} {
		line := timeline.Build(timeline.Input{Provider: format, Messages: func(yield func(timeline.Message) bool) {
			for _, m := range messages {
				if !yield(timeline.Message{JSON: m}) {
					return
				}
			}
		}})
		got := strings.ReplaceAll(outline(line), "0 user Returned by c1:\n", "") // which only one format has
		if got != want || line.Messages != len(messages) {
			t.Errorf("%s: %d messages\n%s", format, line.Messages, got)
		}
		if !line.Prompts[0].Over || line.Prompts[1].Over {
			t.Errorf("%s: %+v", format, line.Prompts)
		}
	}
}

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

// A call that waits for a person's word has not failed.
func TestWhatWaitsIsNoError(t *testing.T) {
	line := new(talk).user("pay").call("e", "pay", `{}`, rendered(tool.CodeApprovalRequired, "", "a person has to allow pay first", "", "Wait."), true).model("I wait.").built()
	if f := called(t, line, "e").Failure; f != nil || first(line) != "" {
		t.Errorf("%+v, the first is %q", f, first(line))
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

// Records are told with the calls that messages have; those of which no message tells come
// after them, prompt by prompt. A record that is forgotten is told as that.
func TestRecordsAreToldWithTheirCalls(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	record := func(id, turn, prompt string, state dedupe.State, after time.Duration) timeline.Record {
		return timeline.Record{ID: id, Turn: turn, Prompt: prompt, Record: dedupe.Record{Tool: "pay", State: state, StartedAt: at.Add(after), Attempts: 3, Fingerprint: [32]byte{id[0]}}}
	}
	done, gone := record("a", "t1", "p1", dedupe.Done, 0), record("b", "t2", "", dedupe.Absent, time.Second)
	early, later, other := record("x", "", "p0", dedupe.Done, -time.Hour), record("y", "", "p0", dedupe.Done, -time.Minute), record("z", "", "p2", dedupe.Claimed, -time.Second)
	early.Text, early.IsError, early.Arguments = "no", true, `{"a":1}`
	later.Text, later.Arguments = "ok", `{"a":2}`
	line := new(talk).user("pay").call("a", "pay", `{}`, "ok", false).call("b", "pay", `{}`, "no", true).asks("c", "look", `{}`).built(later, gone, other, done, early)
	if c := called(t, line, "a"); c.Record == nil || c.Record.Attempts != 3 || line.Prompts[0].ID != "p1" {
		t.Errorf("%+v of %+v", c, line.Prompts)
	}
	if c := called(t, line, "b"); c.Record == nil || c.Record.State != dedupe.Absent {
		t.Errorf("a record that is forgotten: %+v", c)
	}
	if c := called(t, line, "c"); c.Record != nil || c.Answered {
		t.Errorf("a call without a record: %+v", c)
	}
	var after []string
	for e := range line.Calls {
		if line.Prompts[e.Prompt].Unappended {
			after = append(after, line.Prompts[e.Prompt].ID+e.Call.ID)
		}
	}
	if want := []string{"p0x", "p0y", "p2z"}; !slices.Equal(after, want) {
		t.Errorf("%v, want %v", after, want)
	}
	if f := called(t, line, "x").Failure; f == nil || f.Fate != timeline.Recovered || !slices.Equal(f.Next.Differences, []string{"a: 2, was 1"}) {
		t.Errorf("%+v", f)
	}
}

// A call that was answered in the store and not yet to the model tells that.
func TestAnAnswerThatNoMessageHas(t *testing.T) {
	line := new(talk).user("pay").asks("a", "pay", `{}`).built(timeline.Record{ID: "a", Turn: "t1", Record: dedupe.Record{State: dedupe.Done}, Text: invalid("1"), IsError: true})
	c := called(t, line, "a")
	if c.Answered || c.Text != invalid("1") || c.Failure == nil || c.Failure.Fate != timeline.Open {
		t.Errorf("%+v", c)
	}
}

// What is never shown is in no timeline: not in arguments, not in what has changed in them,
// and not in what cannot be read.
func TestArgumentsAreRedacted(t *testing.T) {
	k := new(talk).call("a", "login", `{"password":"hunter2"}`, "no", true).call("b", "login", `{"password":"hunter3"}`, "no", true).asks("c", "login", quoted(`{"password":"hunter4"`))
	line := timeline.Build(timeline.Input{Provider: provider.Anthropic, Messages: slices.Values(k.messages), Redact: func(string, map[string]any) map[string]any {
		return map[string]any{"password": tool.ReceivedRedacted}
	}})
	if got := outline(line); strings.Contains(got, "hunter") || !strings.Contains(got, `{"password":"(redacted)"}`) || !strings.Contains(got, "no JSON object") {
		t.Error(got)
	}
	if n := called(t, line, "a").Failure.Next; n.Again || !slices.Equal(n.Differences, []string{"what differs is not shown"}) {
		t.Errorf("%+v", n)
	}
}

// Long texts are cut, and said to be; an error stands word for word up to more than the
// sidecar ever tells.
func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("x", 20<<10)
	line := new(talk).user(long).call("a", "pay", `{"a":"`+long+`"}`, long, false).call("b", "pay", `{}`, long, true).call("c", "pay", `{}`, long[:10<<10], true).built()
	for id, most := range map[string]int{"a": 210, "b": 16 << 10} {
		if c := called(t, line, id); !c.TextCut || len(c.Text) > most {
			t.Errorf("%s: %d bytes, cut %v", id, len(c.Text), c.TextCut)
		}
	}
	if c := called(t, line, "c"); c.TextCut || len(c.Text) != 10<<10 {
		t.Errorf("an error: %d bytes", len(c.Text))
	}
	if c := called(t, line, "a"); !c.Cut || len(c.Arguments) > 8<<10 || len(line.Events[0].Text) > 510 {
		t.Errorf("%d bytes of arguments, %d of the user's text", len(c.Arguments), len(line.Events[0].Text))
	}
}

// A message that cannot be read hides none of the others.
func TestAMessageThatCannotBeRead(t *testing.T) {
	line := new(talk).user("pay").raw(`{"role":`).raw(`[]`).raw(`{"role":"assistant","content":[{"type":"tool_use","id":7,"name":{},"input":3}]}`).model("done").built()
	if got := outline(line); !strings.Contains(got, "unread\n") || !strings.HasSuffix(got, "model done\n") || line.Messages != 5 {
		t.Errorf("%d messages:\n%s", line.Messages, got)
	}
}

func TestNothingIsATimelineToo(t *testing.T) {
	if line := timeline.Build(timeline.Input{}); len(line.Events) != 0 || line.First != -1 {
		t.Errorf("%+v", line)
	}
}

// What it takes to tell a conversation is in proportion to it: also where each of many
// errors is followed by many calls, and each of them has many arguments.
func TestATimelineTakesInProportion(t *testing.T) {
	allocs := func(n int) float64 {
		var calls, results []string
		for i := range n {
			calls = append(calls, fmt.Sprintf(`{"type":"tool_use","id":"%%s%d","name":"pay","input":{"a":%d,"b":%%q,"c":{"d":[1,2,3]}}}`, i, i))
			results = append(results, fmt.Sprintf(`{"type":"tool_result","tool_use_id":"%%s%d","is_error":true,"content":"no"}`, i))
		}
		k := new(talk).user("pay")
		for _, reply := range []string{"x", "y", "z"} {
			k.raw("%s", `{"role":"assistant","content":[`+strings.NewReplacer("%s", reply, "%q", quoted(reply)).Replace(strings.Join(calls, ","))+`]}`)
			k.raw("%s", `{"role":"user","content":[`+strings.ReplaceAll(strings.Join(results, ","), "%s", reply)+`]}`)
		}
		return testing.AllocsPerRun(1, func() {
			if line := k.built(); line.Counts().Errors != 3*n {
				t.Fatalf("%+v", line.Counts())
			}
		})
	}
	if small, large := allocs(100), allocs(400); large > 6*small {
		t.Errorf("%.0f allocations for four times as much as what takes %.0f", large, small)
	}
}
