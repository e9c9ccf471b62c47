package timeline_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/timeline"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// talk is a conversation in the making, as the Messages API has it.
type talk struct {
	messages []timeline.Message
	turn     int
}

func (k *talk) raw(format string, args ...any) *talk {
	k.messages = append(k.messages, timeline.Message{JSON: fmt.Sprintf(format, args...), Turn: fmt.Sprint("t", k.turn)})
	return k
}

func (k *talk) user(text string) *talk { return k.raw(`{"role":"user","content":%s}`, quoted(text)) }

func (k *talk) model(text string) *talk {
	return k.raw(`{"role":"assistant","content":[{"type":"text","text":%s}]}`, quoted(text))
}

// call is a turn with one call, which is answered.
func (k *talk) call(id, name, args, answer string, isError bool) *talk {
	return k.asks(id, name, args).answers(id, answer, isError)
}

func (k *talk) asks(id, name, args string) *talk {
	k.turn++
	return k.raw(`{"role":"assistant","content":[{"type":"tool_use","id":%q,"name":%q,"input":%s}]}`, id, name, args)
}

func (k *talk) answers(id, answer string, isError bool) *talk {
	return k.raw(`{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%s,"is_error":%v}]}`, id, quoted(answer), isError)
}

func (k *talk) built(records ...timeline.Record) *timeline.Timeline {
	return timeline.Build(timeline.Input{Provider: provider.Anthropic, Messages: slices.Values(k.messages), Records: records})
}

func quoted(text string) string {
	encoded, _ := json.Marshal(text) // a text always can be
	return string(encoded)
}

// rendered is an error as the sidecar tells it.
func rendered(code tool.Code, field, constraint, received, hint string) string {
	return tool.RenderError(tool.Error{Code: code, Field: field, Constraint: constraint, Received: received, Hint: hint}, nil)
}

// invalid is an error that tells all that a model needs.
func invalid(received string) string {
	return rendered(tool.CodeInvalidArgs, "order_id", `pattern: "^A-[0-9]+$"`, received, "Send the id as it stands in the order, e.g. A-77.")
}

// called is the call under an id.
func called(t *testing.T, line *timeline.Timeline, id string) *timeline.Call {
	t.Helper()
	for e := range line.Calls {
		if e.Call.ID == id {
			return e.Call
		}
	}
	t.Fatalf("there is no call %s", id)
	return nil
}

// first is the id of the call with the first error that was not recovered from.
func first(line *timeline.Timeline) string {
	if line.First < 0 {
		return ""
	}
	return line.Events[line.First].Call.ID
}

// outline is a timeline in a line per event.
func outline(line *timeline.Timeline) string {
	var b strings.Builder
	for _, e := range line.Events {
		fmt.Fprintf(&b, "%d ", e.Prompt)
		switch {
		case e.Kind == timeline.UserSaid:
			fmt.Fprintf(&b, "user %s\n", e.Text)
		case e.Kind == timeline.ModelSaid:
			fmt.Fprintf(&b, "model %s\n", e.Text)
		case e.Call == nil:
			b.WriteString("unread\n")
		default:
			fmt.Fprintf(&b, "%s %s(%s) %s\n", e.Call.ID, e.Call.Tool, e.Call.Arguments, e.Call.Text)
		}
	}
	return b.String()
}

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

// A call that waits for a person's word has not failed.
func TestWhatWaitsIsNoError(t *testing.T) {
	line := new(talk).user("pay").call("e", "pay", `{}`, rendered(tool.CodeApprovalRequired, "", "a person has to allow pay first", "", "Wait."), true).model("I wait.").built()
	if f := called(t, line, "e").Failure; f != nil || first(line) != "" {
		t.Errorf("%+v, the first is %q", f, first(line))
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

// Of a call that somebody has settled, and that no message tells of, a model knows what it was told
// before that. One that it is still owed is answered as it was settled.
func TestACallThatWasSettledSince(t *testing.T) {
	settled := timeline.Record{
		ID: "a", Turn: "t1", Record: dedupe.Record{State: dedupe.Done}, Text: "pay has happened",
		Resolution: &sidecallv1.Resolution{By: "root"}, ToldBefore: rendered(tool.CodeOutcomeUnknown, "", "nobody knows whether it has happened", "", "Ask."),
	}
	if c := called(t, new(talk).built(settled), "a"); c.Text != settled.ToldBefore || c.Failure == nil || c.Failure.Code != tool.CodeOutcomeUnknown {
		t.Errorf("%+v", c)
	}
	if c := called(t, new(talk).user("pay").asks("a", "pay", `{}`).built(settled), "a"); c.Answered || c.Text != settled.Text || c.Failure != nil {
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
