package timeline_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/timeline"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/recorded"
)

// messagesOf is a recorded run as the Messages API has it, with its last word.
func messagesOf(run *recorded.Run) *talk {
	k := new(talk)
	for i, prompt := range run.Prompts {
		k.user(fmt.Sprint("prompt ", i))
		for j, c := range prompt {
			k.call(fmt.Sprint("c", j), c.Tool, c.Arguments, c.Result, c.IsError)
		}
		k.model("That is it.")
	}
	return k
}

// recordsOf are the calls of a recorded run as they are recorded.
func recordsOf(run *recorded.Run) (all []timeline.Record) {
	for i, prompt := range run.Prompts {
		for j, c := range prompt {
			all = append(all, timeline.Record{
				ID: fmt.Sprint(i, "-", j), Turn: fmt.Sprint(i, "-", j), Prompt: fmt.Sprint(i), Arguments: c.Arguments, Text: c.Result, IsError: c.IsError,
				Record: dedupe.Record{Tool: c.Tool, State: dedupe.Done, StartedAt: started(i, j)},
			})
		}
	}
	return all
}

// started is when a call of a recorded run was claimed.
func started(prompt, call int) time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(prompt)*time.Hour + time.Duration(call)*time.Second)
}

// counted counts a run by itself: what failed, and what worked later in its prompt.
func counted(run *recorded.Run) (c timeline.Counts) {
	for _, prompt := range run.Prompts {
		for i, call := range prompt {
			c.Calls++
			if !call.IsError {
				continue
			}
			c.Errors++
			same := 0
			for _, other := range prompt {
				if other.IsError && other.Tool == call.Tool && other.Result == call.Result {
					same++
				}
			}
			if same >= 3 {
				c.Spun++
			}
			if slices.ContainsFunc(prompt[i+1:], func(later recorded.Call) bool { return later.Tool == call.Tool && !later.IsError }) {
				c.Recovered++
			} else {
				c.GaveUp++
			}
		}
	}
	return c
}

// Runs of a real agent are counted as they were recorded, by their messages and, but for
// whether a prompt is over, by the records of their calls alone.
func TestAnAuditOfRecordedRuns(t *testing.T) {
	var byMessages, byRecords timeline.Audit
	var want timeline.Counts
	for i, run := range recorded.Airline(t) {
		byMessages.Add(fmt.Sprint(i), messagesOf(&run).built())
		byRecords.Add(fmt.Sprint(i), timeline.Build(timeline.Input{Records: recordsOf(&run)}))
		one := counted(&run)
		want.Calls, want.Errors, want.Spun = want.Calls+one.Calls, want.Errors+one.Errors, want.Spun+one.Spun
		want.Recovered, want.GaveUp = want.Recovered+one.Recovered, want.GaveUp+one.GaveUp
	}
	got := byMessages.Report()
	if got.Counts != want || want.Errors < 20 || want.Recovered == 0 || want.GaveUp == 0 || got.Conversations != 100 {
		t.Errorf("%+v, want %+v", got.Counts, want)
	}
	if alone := byRecords.Report().Counts; alone.Calls != want.Calls || alone.Errors != want.Errors || alone.Recovered != want.Recovered || alone.Open != want.GaveUp {
		t.Errorf("by records alone: %+v, want %+v", alone, want)
	}
	sum := timeline.Counts{}
	for i, m := range got.Messages {
		sum.Errors += m.Errors
		if i > 0 && m.GaveUp > got.Messages[i-1].GaveUp {
			t.Errorf("%+v stands after %+v", m, got.Messages[i-1])
		}
	}
	if worst := got.Messages[0]; sum.Errors != want.Errors || worst.Example == "" || worst.Vague&timeline.Formless == 0 || len(worst.Conversations) == 0 {
		t.Errorf("%d errors by text; the worst: %+v", sum.Errors, worst)
	}
	if len(got.Messages) >= want.Errors/2 {
		t.Errorf("%d texts of %d errors: what differs only in numbers is one", len(got.Messages), want.Errors)
	}
}

// An audit of one tool counts the calls of that.
func TestAnAuditOfOneTool(t *testing.T) {
	line := new(talk).user("pay").call("a", "pay", `{}`, invalid("1")+"\n\nRecovery context", true).call("b", "look", `{}`, "no", true).call("c", "pay", `{"a":1}`, "ok", false).model("done").built()
	a := timeline.Audit{Tool: "pay"}
	a.Add("one", line)
	a.Add("none", new(talk).user("hello").model("hello").built())
	got := a.Report()
	if want := (timeline.Counts{Calls: 2, Errors: 1, Recovered: 1}); got.Counts != want || got.Conversations != 2 || got.Prompts != 1 || got.Unrecorded != 2 {
		t.Errorf("%+v", got)
	}
	if len(got.Tools) != 1 || len(got.Messages) != 1 || got.Messages[0].Code != tool.CodeInvalidArgs || got.Messages[0].Example != invalid("1") || !slices.Equal(got.Messages[0].Conversations, []string{"one"}) {
		t.Errorf("%+v, %+v", got.Tools, got.Messages)
	}
	if empty := new(timeline.Audit).Report(); empty.Conversations != 0 || len(empty.Messages) != 0 {
		t.Errorf("of nothing: %+v", empty)
	}
}

// A sample is the same whatever order the conversations come in, and however often; another
// seed picks others.
func TestASample(t *testing.T) {
	pick := func(seed int64, most int, order []string) []string {
		s := timeline.NewSample(seed, most)
		for _, id := range order {
			s.Offer(id)
		}
		return s.Picked()
	}
	var all []string
	for i := range 1000 {
		all = append(all, fmt.Sprint("c", i))
	}
	backwards := slices.Clone(all)
	slices.Reverse(backwards)
	one := pick(1, 50, all)
	distinct := slices.Compact(slices.Sorted(slices.Values(one)))
	if !slices.Equal(one, pick(1, 50, append(backwards, all...))) || len(distinct) != 50 {
		t.Errorf("%d of 50, or another order picks others", len(distinct))
	}
	if slices.Equal(one, pick(2, 50, all)) {
		t.Error("another seed picks the same")
	}
	if few := pick(1, 50, all[:7]); len(few) != 7 {
		t.Errorf("%d of 7", len(few))
	}
}

func FuzzBuild(f *testing.F) {
	f.Add("anthropic", `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"pay","input":{"b":1}}]}`, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"no","is_error":true}]}`, `{"role":"user","content":"well?"}`)
	f.Add("openai", `{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"pay","arguments":"{"}}]}`, `{"role":"tool","tool_call_id":"a","content":[{"text":"no"}]}`, `{"role":"assistant","content":7}`)
	f.Add("openai-responses", `{"type":"function_call","call_id":"a","name":"pay","arguments":"\ud800"}`, `{"type":"function_call_output","call_id":"a","output":{}}`, `{}`)
	f.Fuzz(func(t *testing.T, format, one, two, three string) {
		messages := []timeline.Message{{JSON: one}, {JSON: two}, {JSON: three}, {JSON: one}, {JSON: two}}
		line := timeline.Build(timeline.Input{Provider: provider.Format(format), Messages: slices.Values(messages), Records: []timeline.Record{{ID: "a", Record: dedupe.Record{Tool: "pay", State: dedupe.Done}, Text: two, IsError: true}}})
		size := 0
		for e := range line.Calls {
			size += len(e.Call.Text) + len(e.Call.Arguments)
			if f := e.Call.Failure; f != nil && f.Fate == 0 {
				t.Errorf("an error without a fate: %+v", f)
			}
		}
		if in := 6*(2*len(one)+2*len(two)+len(three)) + 1000; size > in { // as JSON a character has six at most
			t.Errorf("%d bytes of %d", size, in)
		}
		var a timeline.Audit
		a.Add("x", line)
		if c := a.Report().Counts; c.Recovered+c.GaveUp+c.Open != c.Errors || c.Spun > c.Errors || c.Errors > c.Calls {
			t.Errorf("%+v", c)
		}
	})
}

func BenchmarkBuild(b *testing.B) {
	runs := recorded.Airline(b)
	var talks []*talk
	for i := range runs {
		talks = append(talks, messagesOf(&runs[i]))
	}
	for b.Loop() {
		for _, k := range talks {
			k.built()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(talks)), "µs/conversation")
}
