//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// prompting plays loops, prompt by prompt.
type prompting struct {
	*harness.Sidecar

	t       *testing.T
	up      till
	prompts sidecallv1.ConversationServiceClient
	made    int
}

// call makes a call of a prompt, about something of its own, and says what code it is
// to have.
func (p *prompting) call(prompt, id, tool, want string, answer upstream.Step) {
	p.t.Helper()
	p.about(id, prompt, id, tool, want, answer)
}

// about is call about a key.
func (p *prompting) about(key, prompt, id, tool, want string, answer upstream.Step) {
	p.t.Helper()
	p.up.Script("/act", answer)
	req := callOf(key)
	req.ToolUseId = id
	req.ConversationId, req.PromptId, req.TurnId, req.ToolName = "c-1", prompt, id, tool
	if res := p.Call(req); code(res) != want {
		p.t.Fatalf("%s of %s: %q, want %q: %v", id, prompt, code(res), want, res)
	}
	p.made++
}

func (p *prompting) works(prompt, id string) { p.call(prompt, id, "act", "", upstream.Echo()) }
func (p *prompting) fails(prompt, id string) {
	p.call(prompt, id, "act", "NOT_FOUND", upstream.Status(404))
}
func (p *prompting) looks(prompt, id string) { p.call(prompt, id, "look", "", upstream.Echo()) }
func (p *prompting) misspells(prompt, id string) {
	p.call(prompt, id, "atc", "UNKNOWN_TOOL", upstream.Echo())
}
func (p *prompting) refused(prompt, id string) {
	p.call(prompt, id, "act", "BUDGET_EXCEEDED", upstream.Echo())
}

// goesRound makes the same call until it is refused.
func (p *prompting) goesRound(prompt string, ids ...string) {
	for i, id := range ids {
		want := "NOT_FOUND"
		if i == len(ids)-1 {
			want = "LOOP_DETECTED"
		}
		p.about("A-1", prompt, id, "act", want, upstream.Status(404))
	}
}

func (p *prompting) end(prompt, reason string, used int64) {
	p.t.Helper()
	res, err := p.prompts.EndPrompt(p.t.Context(), &sidecallv1.EndPromptRequest{ConversationId: "c-1", PromptId: prompt, ExitReason: reason})
	if err != nil || res.GetBudget().GetToolCallsUsed() != used || res.GetBudget().GetToolCallsLimit() != 5 {
		p.t.Fatalf("the end of %s: %v, %v, want %d of 5 calls used", prompt, res, err, used)
	}
}

// metrics is the page, and its samples by name and labels.
func (p *prompting) metrics() (page string, samples map[string]float64) {
	p.t.Helper()
	_, page = p.Get("/metrics")
	samples = make(map[string]float64)
	for line := range strings.Lines(page) {
		name, value, ok := cutLast(strings.TrimSpace(line), " ")
		if number, err := strconv.ParseFloat(value, 64); ok && err == nil && !strings.HasPrefix(line, "#") {
			samples[name] = number
		}
	}
	return page, samples
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// scraped plays loops with errors, recoveries, replays and a budget that is used up,
// and returns the sidecar's /metrics from before and after.
func scraped(t *testing.T) (before, after string) {
	t.Helper()
	up := startTill(t)
	s := harness.Start(t, fiveCalls+up.tools(""))
	p := &prompting{Sidecar: s, t: t, up: up, prompts: sidecallv1.NewConversationServiceClient(s.Conn)}

	// Everything once: a series that comes into being has not risen by that, for
	// Prometheus.
	p.fails("first", "f1")
	p.works("first", "f2")
	p.works("first", "f2")
	p.misspells("first", "f3")
	p.looks("first", "f4")
	p.works("first", "f5")
	p.works("first", "f6")
	p.refused("first", "f7")
	p.end("first", "end_turn", 5)
	p.goesRound("goes round first", "l1", "l2", "l3", "l4")
	p.end("goes round first", "loop_detected", 3)
	before, was := p.metrics()
	p.made = 0

	p.fails("recovers", "1")
	p.works("recovers", "2")
	p.works("recovers", "2")
	p.end("recovers", "end_turn", 2)
	for _, id := range []string{"3", "4", "5", "6", "7"} {
		p.fails("runs away", id)
	}
	p.refused("runs away", "8")
	p.end("runs away", "budget_exceeded", 5)
	p.fails("finds another way", "9")
	p.looks("finds another way", "10")
	p.end("finds another way", "end_turn", 2)
	p.misspells("corrects itself", "11")
	p.works("corrects itself", "12")
	p.end("corrects itself", "stop_sequence", 1)
	p.fails("gives up", "13")
	p.end("gives up", "error", 1)
	p.end("gives up", "error", 1)
	p.fails("recovers too", "14")
	p.works("recovers too", "15")
	p.end("recovers too", "end_turn", 2)
	p.goesRound("goes round", "16", "17", "18", "19")
	p.end("goes round", "loop_detected", 3)
	p.fails("recovers again", "20")
	p.works("recovers again", "21")
	p.end("recovers again", "end_turn", 2)

	after, is := p.metrics()
	wantRisen(t, was, is)
	if p.made != 22 {
		t.Fatalf("%d calls were made", p.made)
	}
	for _, line := range []string{
		`"prompt":"runs away","exit":"budget_exceeded","calls":6,"errors":5,"recovered":0,"unrecovered":["act"]}`,
		`"prompt":"corrects itself","exit":"other","calls":2,"errors":1,"recovered":1,"reason":"stop_sequence"}`,
	} {
		harness.WaitFor(t, line, func() bool { return strings.Contains(s.Log(), line) })
	}
	return before, after
}

// wantRisen compares by how much the counters have risen with what was played.
func wantRisen(t *testing.T, was, is map[string]float64) {
	t.Helper()
	risen := make(map[string]float64)
	codes := make(map[string]float64)
	codeOf := regexp.MustCompile(`error_type="([A-Z_]+)"`)
	for name, value := range is {
		by := value - was[name]
		switch {
		case by == 0, strings.Contains(name, "_bucket"):
		case strings.HasPrefix(name, "sidecall_calls_total"):
			if code := codeOf.FindStringSubmatch(name); code != nil {
				codes[code[1]] += by
			}
			codes["all"] += by
		case strings.HasPrefix(name, "sidecall_prompt"), strings.HasPrefix(name, "sidecall_re"):
			risen[name] = by
		}
	}
	if want := map[string]float64{
		`sidecall_prompt_calls_count{sidecall_profile="tight"}`: 8, `sidecall_prompt_calls_sum{sidecall_profile="tight"}`: 21,
		`sidecall_prompts_total{sidecall_exit="end_turn"}`: 4, `sidecall_prompts_total{sidecall_exit="budget_exceeded"}`: 1,
		`sidecall_prompts_total{sidecall_exit="loop_detected"}`: 1, `sidecall_prompts_total{sidecall_exit="other"}`: 1, `sidecall_prompts_total{sidecall_exit="error"}`: 1,
		`sidecall_recoveries_total{sidecall_recovered="true"}`: 4, `sidecall_recoveries_total{sidecall_recovered="false"}`: 3,
		`sidecall_refusals_total{sidecall_rule="budget_calls"}`: 1, `sidecall_refusals_total{sidecall_rule="same_call"}`: 1, `sidecall_replays_total`: 1,
	}; !maps.Equal(risen, want) {
		t.Errorf("risen: %v\nwant:  %v", risen, want)
	}
	if want := map[string]float64{"all": 22, "NOT_FOUND": 13, "UNKNOWN_TOOL": 1, "BUDGET_EXCEEDED": 1, "LOOP_DETECTED": 1}; !maps.Equal(codes, want) {
		t.Errorf("codes: %v, want %v", codes, want)
	}
}

// promql evaluates queries over pages as Prometheus does: see tools/promql.
type promql struct {
	t      *testing.T
	binary string
}

type queried struct {
	Series []struct {
		Labels map[string]string
		Value  any
	}
	Error string
}

func newPromql(t *testing.T) promql {
	t.Helper()
	q := promql{t: t, binary: filepath.Join(t.TempDir(), "promql")}
	build := exec.CommandContext(t.Context(), harness.Go(), "build", "-o", q.binary, ".")
	build.Dir = filepath.Join(harness.Root(), "tools", "promql") // a module of its own
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return q
}

func (q promql) ask(pages, queries []string) []queried {
	q.t.Helper()
	asked, err := json.Marshal(map[string][]string{"pages": pages, "queries": queries})
	if err != nil {
		q.t.Fatal(err)
	}
	cmd := exec.CommandContext(q.t.Context(), q.binary)
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(asked)), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		q.t.Fatal(err)
	}
	var answers []queried
	if err := json.Unmarshal(out, &answers); err != nil || len(answers) != len(queries) {
		q.t.Fatalf("%v: %s", err, out)
	}
	return answers
}

// byLabels are the labels that a query groups by.
var byLabels = regexp.MustCompile(`by \(([^)]*)\)`)

// empty are the queries that give no series at all, or one without a number or
// without a label that it is grouped by, and why.
func (q promql) empty(pages, queries []string) map[string]string {
	q.t.Helper()
	found := make(map[string]string)
	for i, answer := range q.ask(pages, queries) {
		if answer.Error != "" || len(answer.Series) == 0 {
			found[queries[i]] = "nothing: " + answer.Error
		}
		for _, s := range answer.Series {
			if _, ok := s.Value.(float64); !ok {
				found[queries[i]] = "no number"
			}
			for _, by := range byLabels.FindAllStringSubmatch(queries[i], -1) {
				for label := range strings.SplitSeq(by[1], ", ") {
					if s.Labels[label] == "" && label != "le" {
						found[queries[i]] = "no label " + label
					}
				}
			}
		}
	}
	return found
}

// dashboardQueries are those of the dashboard, as Grafana sends them, in their rows,
// and all of them.
func dashboardQueries(t *testing.T) (rows [][]string, all []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/dashboard/sidecall.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Type    string
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Type string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		if panel.Type == "row" {
			rows = append(rows, nil)
		} else if len(panel.Targets) == 0 {
			t.Error("a panel without a query")
		}
		for _, target := range panel.Targets {
			expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "1h")
			rows[len(rows)-1] = append(rows[len(rows)-1], expr)
			all = append(all, expr)
		}
	}
	if n := strings.Count(string(text), `"expr"`); n != len(all) {
		t.Errorf("%d queries were found of %d", len(all), n)
	}
	for _, variable := range dashboard.Templating.List {
		if variable.Type == "query" {
			t.Error("a variable has a query, which is not tried here")
		}
	}
	return rows, all
}

// documented are the queries of docs/signals.md.
func documented(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/signals.md")
	if err != nil {
		t.Fatal(err)
	}
	var queries []string
	for _, block := range regexp.MustCompile("(?s)```promql\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		queries = append(queries, strings.ReplaceAll(strings.TrimSpace(block[1]), "[5m]", "[1h]"))
	}
	if len(queries) < 6 {
		t.Fatalf("only %d queries were found", len(queries))
	}
	return queries
}

// The dashboard has a row for each of the four numbers, and each says exactly what was
// played.
func TestTheDashboardShowsWhatHappened(t *testing.T) {
	t.Parallel()
	before, after := scraped(t)
	q := newPromql(t)
	pages := []string{before, after}
	rows, all := dashboardQueries(t)
	all = append(all, documented(t)...)
	for query, why := range q.empty(pages, all) {
		t.Errorf("%s: %s", query, why)
	}
	if len(rows) != 5 {
		t.Fatalf("%d rows, want the four numbers and the detail", len(rows))
	}
	// Of 8 prompts with 2, 6, 2, 2, 1, 2, 4 and 2 calls one has less than 2, five have 2,
	// and the last has 6; within a bucket it is interpolated.
	for i, want := range []float64{1 + 3.0/5, 5.92, 4.0 / 7, 1.0 / 22} {
		number := q.ask(pages, rows[i][:1])[0].Series
		if len(number) != 1 {
			t.Fatalf("row %d begins with %d numbers", i+1, len(number))
		}
		if got := number[0].Value.(float64); math.Abs(got-want) > 1e-5 {
			t.Errorf("row %d says %v, want %v", i+1, got, want)
		}
	}
	wantRenamesNoticed(t, q, pages, all)
}

// wantRenamesNoticed renames each metric and label of the queries, one at a time: some
// query must notice.
func wantRenamesNoticed(t *testing.T, q promql, pages, queries []string) {
	t.Helper()
	names := regexp.MustCompile(`\b(?:sidecall|gen_ai|error)_\w+`).FindAllString(strings.Join(queries, "\n"), -1)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) < 12 {
		t.Errorf("the queries have only the names %v", names)
	}
	for _, name := range names {
		renamed := regexp.MustCompile(`\b` + name + `\b`)
		if !renamed.MatchString(pages[1]) {
			t.Errorf("%s is not in /metrics", name)
		}
		var other []string
		for _, page := range pages {
			other = append(other, renamed.ReplaceAllString(page, "renamed_"+name))
		}
		if len(q.empty(other, queries)) == 0 {
			t.Errorf("nobody would notice that %s has another name", name)
		}
	}
}

// Replicas share a budget, and not what they have seen of a prompt: the one that made
// no call of it tells what is left, and counts the exit alone.
func TestAPromptEndsAtAnotherReplica(t *testing.T) {
	t.Parallel()
	up := startTill(t)
	up.Script("/act", upstream.Echo())
	config := fiveCalls + up.tools(fmt.Sprintf("store: {redis: {addrs: [%q]}}\n", harness.Redis(t)))
	made, other := harness.Start(t, "instance: one\n"+config), harness.Start(t, "instance: two\n"+config)
	if res := made.Call(prompted("1")); res.GetIsError() {
		t.Fatal(res)
	}
	at := sidecallv1.NewConversationServiceClient(other.Conn)
	begun, err := at.StartPrompt(t.Context(), &sidecallv1.StartPromptRequest{ConversationId: "c-1", PromptId: "p-2"})
	if err != nil || begun.GetBudget().GetToolCallsUsed() != 0 || begun.GetBudget().GetToolCallsLimit() != 5 {
		t.Errorf("a new prompt: %v, %v", begun, err)
	}
	ended, err := at.EndPrompt(t.Context(), &sidecallv1.EndPromptRequest{ConversationId: "c-1", PromptId: "p-1", ExitReason: "end_turn"})
	if err != nil || ended.GetBudget().GetToolCallsUsed() != 1 || ended.GetBudget().GetToolCallsLimit() != 5 {
		t.Errorf("ended: %v, %v", ended, err)
	}
	_, page := other.Get("/metrics")
	if !strings.Contains(page, `sidecall_prompts_total{sidecall_exit="end_turn"} 1`) || strings.Contains(page, "sidecall_prompt_calls_count") {
		t.Error("it counts calls that it has not seen, or not the exit")
	}
	harness.WaitFor(t, "the line", func() bool { return strings.Contains(other.Log(), `"calls_elsewhere":true`) })
}
