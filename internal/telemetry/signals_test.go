package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/sidecall/sidecall/internal/tool"
)

// observed is a recorder whose metrics and log can be read.
type observed struct {
	*Recorder

	t      *testing.T
	reader *metric.ManualReader
	log    bytes.Buffer
}

func newObserved(t *testing.T) *observed {
	t.Helper()
	o := &observed{t: t, reader: metric.NewManualReader()}
	provider := metric.NewMeterProvider(metric.WithReader(o.reader))
	var err error
	if o.Recorder, err = NewRecorder(noop.NewTracerProvider().Tracer("test"), provider.Meter("test"), slog.New(slog.NewJSONHandler(&o.log, nil))); err != nil {
		t.Fatal(err)
	}
	return o
}

// points are the values of a metric, by the values of its labels joined; of a
// histogram they are the sums.
func (o *observed) points(name string) map[string]int64 {
	o.t.Helper()
	var all metricdata.ResourceMetrics
	if err := o.reader.Collect(context.Background(), &all); err != nil {
		o.t.Fatal(err)
	}
	points := make(map[string]int64)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					points[values(p.Attributes)] = p.Value
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					points[values(p.Attributes)+" prompts"] = int64(p.Count)
					points[values(p.Attributes)+" calls"] = p.Sum
				}
			default:
				o.t.Fatalf("%s is a %T", name, data)
			}
		}
	}
	return points
}

// values are those of the labels of a point.
func values(labels attribute.Set) string {
	all := make([]string, 0, labels.Len())
	for _, label := range labels.ToSlice() {
		all = append(all, label.Value.String())
	}
	return strings.Join(all, " ")
}

// risen are the points of a metric that are not 0.
func (o *observed) risen(name string) map[string]int64 {
	o.t.Helper()
	values := o.points(name)
	maps.DeleteFunc(values, func(_ string, v int64) bool { return v == 0 })
	return values
}

// prompts are the lines of the log about prompts.
func (o *observed) promptLines() []map[string]any {
	o.t.Helper()
	var lines []map[string]any
	for line := range strings.Lines(o.log.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			o.t.Fatal(err)
		}
		if entry["msg"] == "prompt" {
			lines = append(lines, entry)
		}
	}
	return lines
}

// made is a call, and how it ended.
type made struct {
	tool, turn string // with a tool that begins with "?", there is none of that name
	end        CallEnd
}

var (
	errNotFound = CallEnd{Code: tool.CodeNotFound, Attempts: 1}
	errUnknown  = CallEnd{Code: tool.CodeUnknownTool}
	errLoop     = CallEnd{Code: tool.CodeLoopDetected, Rule: "same_call"}
	errLeft     = CallEnd{Code: tool.CodeCancelled}
	ok          = CallEnd{Attempts: 1}
	replay      = CallEnd{Replayed: true}
	replayOfErr = CallEnd{Replayed: true, Code: tool.CodeNotFound}
)

var someone = PromptKey{Conversation: "c", Prompt: "p"}

// call makes a call of a prompt.
func (o *observed) call(key PromptKey, m made) {
	o.started(key, m)(m.end)
}

// started makes a call that ends later.
func (o *observed) started(key PromptKey, m made) (end func(CallEnd)) {
	_, c := o.StartCall(context.Background(), CallInfo{
		Tool: m.tool, Registered: !strings.HasPrefix(m.tool, "?"), CallID: tool.CallID{ID: "toolu", Turn: m.turn, Tenant: key.Tenant, Conversation: key.Conversation}, Prompt: key.Prompt,
	}, time.Now())
	return func(e CallEnd) { c.End(context.Background(), e) }
}

// What becomes of the errors of a prompt, by what is called after them and how it
// ends.
func TestAnErrorIsRecoveredFromOrEndsThePrompt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		calls                       []made
		exit                        string
		errors, recovered, badly    int
		toolCalls, replays, refused int
	}{
		"it works at once":               {calls: []made{{"a", "1", ok}}, exit: "end_turn", toolCalls: 1},
		"an error, then a success":       {calls: []made{{"a", "1", errNotFound}, {"a", "2", ok}}, exit: "end_turn", errors: 1, recovered: 1, toolCalls: 2},
		"without turns":                  {calls: []made{{"a", "", errNotFound}, {"a", "", ok}}, exit: "end_turn", errors: 1, recovered: 1, toolCalls: 2},
		"three errors are one streak":    {calls: []made{{"a", "1", errNotFound}, {"a", "2", errNotFound}, {"a", "3", errNotFound}, {"a", "4", ok}}, exit: "error", errors: 3, recovered: 1, toolCalls: 4},
		"and again":                      {calls: []made{{"a", "1", errNotFound}, {"a", "2", ok}, {"a", "3", errNotFound}, {"a", "4", ok}}, exit: "end_turn", errors: 2, recovered: 2, toolCalls: 4},
		"another tool is no recovery":    {calls: []made{{"a", "1", errNotFound}, {"b", "2", ok}}, exit: "error", errors: 1, badly: 1, toolCalls: 2},
		"but the prompt may end well":    {calls: []made{{"a", "1", errNotFound}, {"b", "2", ok}}, exit: "end_turn", errors: 1, toolCalls: 2},
		"nobody says how it ended":       {calls: []made{{"a", "1", errNotFound}, {"b", "2", ok}}, exit: "stop_sequence", errors: 1, toolCalls: 2},
		"nor on an error":                {calls: []made{{"b", "1", ok}, {"a", "2", errNotFound}}, exit: "", errors: 1, badly: 1, toolCalls: 2},
		"a sibling in the same turn":     {calls: []made{{"a", "1", errNotFound}, {"a", "1", ok}}, exit: "timeout", errors: 1, badly: 1, toolCalls: 2},
		"a made-up name, and a real one": {calls: []made{{"?x", "1", errUnknown}, {"b", "2", ok}}, exit: "end_turn", errors: 1, recovered: 1, toolCalls: 2},
		"made-up names to the end":       {calls: []made{{"?x", "1", errUnknown}, {"?y", "2", errUnknown}}, exit: "error", errors: 2, badly: 1, toolCalls: 2},
		"two tools fail, one badly":      {calls: []made{{"a", "1", errNotFound}, {"b", "2", errNotFound}, {"a", "3", ok}}, exit: "max_tokens", errors: 2, recovered: 1, badly: 1, toolCalls: 3},
		"a replay is no call":            {calls: []made{{"a", "1", ok}, {"a", "1", replay}, {"a", "1", replayOfErr}}, exit: "error", toolCalls: 1, replays: 2},
		"a guard is no error":            {calls: []made{{"a", "1", ok}, {"a", "2", errLoop}}, exit: "loop_detected", toolCalls: 2, refused: 1},
		"a guard after an error":         {calls: []made{{"a", "1", errNotFound}, {"a", "2", errLoop}}, exit: "loop_detected", errors: 1, badly: 1, toolCalls: 2, refused: 1},
		"the caller has left":            {calls: []made{{"a", "1", errLeft}}, exit: "cancelled", toolCalls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			for _, m := range c.calls {
				o.call(someone, m)
			}
			o.EndPrompt(someone, c.exit)
			lines := o.promptLines()
			if len(lines) != 1 {
				t.Fatalf("%d lines: %s", len(lines), o.log.String())
			}
			got := fmt.Sprint(lines[0]["calls"], lines[0]["errors"], lines[0]["recovered"])
			if want := fmt.Sprint(float64(c.toolCalls), float64(c.errors), float64(c.recovered)); got != want {
				t.Errorf("calls, errors, recovered: %s, want %s: %v", got, want, lines[0])
			}
			counted := map[string]int64{"true": int64(c.recovered), "false": int64(c.badly)}
			if got := o.points("sidecall.recoveries"); !maps.Equal(got, counted) {
				t.Errorf("recoveries %v, want %v", got, counted)
			}
			if got := o.points("sidecall.prompt.calls"); got[" prompts"] != 1 || got[" calls"] != int64(c.toolCalls) {
				t.Errorf("calls per prompt %v", got)
			}
			if got := o.points("sidecall.replays")[""]; got != int64(c.replays) {
				t.Errorf("%d replays, want %d", got, c.replays)
			}
			if got := o.risen("sidecall.refusals"); got["same_call"] != int64(c.refused) {
				t.Errorf("refusals %v, want %d", got, c.refused)
			}
		})
	}
}

// A success that was on its way when the error came is no answer to it.
func TestARecoveryBeginsAfterTheError(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	end := o.started(someone, made{tool: "a"})
	o.call(someone, made{tool: "a", end: errNotFound})
	end(ok)
	o.EndPrompt(someone, "error")
	if got, want := o.points("sidecall.recoveries"), (map[string]int64{"true": 0, "false": 1}); !maps.Equal(got, want) {
		t.Errorf("recoveries %v, want %v", got, want)
	}
}

// An EndPrompt whose answer was lost is sent again, and calls may end after it.
func TestAPromptEndsOnce(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	late := o.started(someone, made{tool: "a"})
	o.call(someone, made{tool: "a", end: ok})
	for range 3 {
		o.EndPrompt(someone, "end_turn")
	}
	late(errNotFound)
	o.call(someone, made{tool: "a", end: replay})
	o.EndPrompt(someone, "end_turn")
	if got := o.risen("sidecall.prompts"); !maps.Equal(got, map[string]int64{"end_turn": 1}) {
		t.Errorf("prompts %v, want one", got)
	}
	o.call(someone, made{tool: "a", end: ok}) // where the conversation is the prompt it goes on
	o.EndPrompt(someone, "refusal")
	if got := o.risen("sidecall.prompts"); !maps.Equal(got, map[string]int64{"end_turn": 1, "refusal": 1}) {
		t.Errorf("prompts %v, want two", got)
	}
	if got := o.points("sidecall.prompt.calls"); got[" prompts"] != 2 || got[" calls"] != 2 {
		t.Errorf("calls per prompt %v", got)
	}
}

// A prompt whose calls went to another replica has an exit here, and no number of
// calls; one that was begun and in which nothing was called has 0.
func TestAPromptOfWhichNothingWasHeard(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	o.EndPrompt(someone, "end_turn")
	if got := o.points("sidecall.prompt.calls"); len(got) != 0 {
		t.Errorf("calls per prompt %v of a prompt that was served elsewhere", got)
	}
	if line := o.promptLines()[0]; line["calls_elsewhere"] != true || line["exit"] != "end_turn" {
		t.Errorf("the line is %v", line)
	}
	other := PromptKey{Conversation: "c", Prompt: "p2"}
	o.StartPrompt(other, "narrow")
	o.StartPrompt(other, "wide") // sent again
	o.EndPrompt(other, "end_turn")
	if got := o.points("sidecall.prompt.calls"); !maps.Equal(got, map[string]int64{"narrow prompts": 1, "narrow calls": 0}) {
		t.Errorf("calls per prompt %v", got)
	}
	o.EndPrompt(PromptKey{}, "end_turn")
	o.StartPrompt(PromptKey{}, "")
	o.call(PromptKey{}, made{tool: "a", end: ok})
	if got := o.risen("sidecall.prompts"); got["end_turn"] != 2 {
		t.Errorf("a prompt without a name was counted: %v", got)
	}
}

// What a program or a model makes up is in the log at most, and no label of its own.
func TestLabelsAreOfFixedLists(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	for i, made := range []string{"made_up", "idle", "evicted", "other", ""} {
		key := PromptKey{Conversation: "conversation-9", Prompt: fmt.Sprint("prompt-9", i)}
		_, c := o.StartCall(t.Context(), CallInfo{Tool: "made_up_tool", CallID: tool.CallID{Conversation: key.Conversation}, Prompt: key.Prompt}, time.Now())
		c.End(t.Context(), CallEnd{Code: tool.CodeUnknownTool, Rule: made + " rule"})
		o.EndPrompt(key, made)
	}
	if got := o.risen("sidecall.prompts"); !maps.Equal(got, map[string]int64{exitOther: 5}) {
		t.Errorf("prompts %v", got)
	}
	if got := o.risen("sidecall.refusals"); !maps.Equal(got, map[string]int64{ruleOther: 5}) {
		t.Errorf("refusals %v", got)
	}
	if line := o.promptLines()[0]; line["reason"] != "made_up" || line["exit"] != exitOther || line["prompt"] != "prompt-90" {
		t.Errorf("the line is %v", line)
	}
	var all metricdata.ResourceMetrics
	if err := o.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v", all.ScopeMetrics); strings.Contains(text, "-9") || strings.Contains(text, "made_up") {
		t.Errorf("metrics name what was made up: %s", text)
	}
}

// A counter that comes into being with its first event has not risen by it, for
// whoever looks at its rate.
func TestCountersAreThereFromTheStart(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	for name, want := range map[string][]string{
		"sidecall.prompts": exits, "sidecall.refusals": Rules(), "sidecall.recoveries": {"true", "false"}, "sidecall.replays": {""},
	} {
		if got := slices.Sorted(maps.Keys(o.points(name))); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s has %v, want %v", name, got, want)
		}
	}
}

func TestPromptsOfTenantsAreApart(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	mine, theirs := PromptKey{"me", "c", "p"}, PromptKey{"they", "c", "p"}
	o.call(mine, made{tool: "a", end: errNotFound})
	o.call(theirs, made{tool: "a", end: ok})
	o.EndPrompt(theirs, "end_turn")
	o.EndPrompt(mine, "error")
	if got, want := o.points("sidecall.recoveries"), (map[string]int64{"true": 0, "false": 1}); !maps.Equal(got, want) {
		t.Errorf("recoveries %v, want %v", got, want)
	}
	if lines := o.promptLines(); lines[0]["errors"] != 0.0 || lines[1]["errors"] != 1.0 {
		t.Errorf("lines %v", lines)
	}
}

// Nobody has to end a prompt.
func TestAPromptThatNobodyEndsIsIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newObserved(t)
		end := o.signals.prompts.keep()
		o.call(someone, made{tool: "a", end: errNotFound})
		o.EndPrompt(PromptKey{Conversation: "ended"}, "end_turn")
		time.Sleep(PromptIdle - time.Minute)
		o.call(someone, made{tool: "a", end: replay}) // somebody is still there
		time.Sleep(PromptIdle - time.Minute)
		if got := o.risen("sidecall.prompts"); !maps.Equal(got, map[string]int64{"end_turn": 1}) {
			t.Errorf("too early: %v", got)
		}
		time.Sleep(2*time.Minute + promptSweep)
		synctest.Wait()
		if got := o.risen("sidecall.prompts"); !maps.Equal(got, map[string]int64{"end_turn": 1, exitIdle: 1}) {
			t.Errorf("prompts %v", got)
		}
		if got := o.points("sidecall.recoveries")["false"]; got != 1 {
			t.Errorf("%d prompts ended badly, want the one that ends on an error", got)
		}
		if table := o.signals.prompts; table.byUse.Len()+len(table.byKey) > 0 {
			t.Errorf("%d prompts stay", table.byUse.Len())
		}
		if err := end(t.Context()); err != nil { // and with it the goroutine
			t.Error(err)
		}
	})
}

// The table is bounded: the prompt goes of which nothing was heard for longest.
func TestTheTableOfPromptsIsBounded(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	o.signals.prompts.most = 2
	key := func(i int) PromptKey { return PromptKey{Conversation: "one", Prompt: fmt.Sprint(i)} }
	for i := range 10 {
		o.call(key(i), made{tool: "a", end: ok})
		o.call(key(0), made{tool: "a", end: ok}) // is heard of all the time
	}
	o.EndPrompt(key(0), "end_turn")
	o.EndPrompt(key(10), "end_turn") // takes the place of 9
	o.call(key(11), made{tool: "a", end: ok})
	if got := o.risen("sidecall.prompts"); !maps.Equal(got, map[string]int64{exitEvicted: 9, "end_turn": 2}) {
		t.Errorf("prompts %v", got)
	}
	if s := o.signals.prompts; s.byUse.Len() != 2 || len(s.byKey) != 2 {
		t.Errorf("%d prompts in the table, want 2", s.byUse.Len())
	}
	if got := o.points("sidecall.prompt.calls"); got[" prompts"] != 10 || got[" calls"] != 20 {
		t.Errorf("calls per prompt %v", got)
	}
	for i := range maxOpenErrors + 3 {
		o.call(someone, made{tool: fmt.Sprint("tool", i), end: errNotFound})
	}
	o.EndPrompt(someone, "error")
	lines := o.promptLines()
	if last := lines[len(lines)-1]; last["errors"] != float64(maxOpenErrors+3) || len(last["unrecovered"].([]any)) != maxOpenErrors {
		t.Errorf("the line is %v", last)
	}
}

// What a call costs the signals: of a prompt that is open, and of one that it opens
// while another has to make room.
func BenchmarkSignals(b *testing.B) {
	for name, prompts := range map[string]int{"one prompt": 1, "a prompt per call": 4 * maxPrompts} {
		b.Run(name, func(b *testing.B) {
			r, err := NewRecorder(noop.NewTracerProvider().Tracer("test"), metric.NewMeterProvider().Meter("test"), slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			keys := make([]string, prompts)
			for i := range keys {
				keys[i] = fmt.Sprint("conversation ", i)
			}
			c := Call{recorder: r, name: "a", info: CallInfo{CallID: tool.CallID{Conversation: "c"}}, start: time.Now()}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c.info.Conversation = keys[i%prompts]
				r.signals.called(context.Background(), &c, &ok, c.start)
			}
		})
	}
}
