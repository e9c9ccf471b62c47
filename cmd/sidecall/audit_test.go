package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

func audited() *sidecallv1.AuditConversationsResponse {
	return &sidecallv1.AuditConversationsResponse{
		Found: 1234, Sampled: 49, Unreadable: 1, Prompts: 210, Recorded: 100, Forgotten: 20, Unrecorded: 457, ToolsLeft: 1, MessagesLeft: 2,
		RecordsKept: durationpb.New(24 * time.Hour), ConversationsKept: durationpb.New(72 * time.Hour),
		Counts: &sidecallv1.ErrorCounts{Calls: 577, Errors: 21, Recovered: 6, GaveUp: 15, Spun: 3},
		Tools:  []*sidecallv1.AuditedTool{{ToolName: "book", Counts: &sidecallv1.ErrorCounts{Calls: 40, Errors: 20, Recovered: 5, GaveUp: 15, Spun: 3}}, {ToolName: "look up", Counts: &sidecallv1.ErrorCounts{Calls: 537, Errors: 1, Recovered: 1}}},
		Messages: []*sidecallv1.AuditedMessage{
			{ToolName: "book", Example: "Error: payment amount does not add up, total price is 305, but paid 255, and so on", Counts: &sidecallv1.ErrorCounts{Calls: 8, Errors: 8, GaveUp: 8}, Vague: []string{"it is plain text"}, ConversationIds: []string{"c1", "c 2"}},
			{ToolName: "look up", Code: "INVALID_ARGS", Example: "{\"code\":\x1b}", Counts: &sidecallv1.ErrorCounts{Calls: 1, Errors: 1, Recovered: 1}, ConversationIds: []string{"c3"}},
		},
	}
}

// What an audit has found is told with what it covers, on a narrow terminal.
func TestAnAuditOnATerminal(t *testing.T) {
	fake := &fakeSidecar{audit: audited(), tenant: "reader"}
	addr, _ := fake.serve(t)
	got := command(t, "audit", "--since", "7d", "--sample", "50", "--seed", "42", "--tool", "book", "--tenant", "reader", "--addr", addr)
	if got.code != 0 {
		t.Fatalf("%+v", got)
	}
	instants := regexp.MustCompile(`\d{4}-\d\d-\d\d\s+\d\d:\d\d:\d\dZ`)
	wantNarrow(t, "audit.golden.txt", instants.ReplaceAllStringFunc(got.out, func(instant string) string {
		return "YYYY-MM-DD" + instant[10:len(instant)-9] + "HH:MM:SSZ"
	}))
	req := fake.audited[0]
	if since := time.Since(req.GetSince().AsTime()); req.GetSample() != 50 || req.GetSeed() != 42 || req.GetToolName() != "book" || since < 168*time.Hour || since > 169*time.Hour {
		t.Errorf("it asks for %v", req)
	}
	asJSON := command(t, "audit", "--json", "--tenant", "reader", "--addr", addr)
	var said map[string]any
	if err := json.Unmarshal([]byte(asJSON.out), &said); asJSON.code != 0 || err != nil || said["found"] != "1234" {
		t.Errorf("%+v: %v", asJSON, err)
	}
}

// Where nothing was appended to, the audit says so; where records are kept for as long as
// was asked for, nothing is left out.
func TestAnAuditOfNothing(t *testing.T) {
	fake := &fakeSidecar{audit: &sidecallv1.AuditConversationsResponse{RecordsKept: durationpb.New(240 * time.Hour), ConversationsKept: durationpb.New(240 * time.Hour), Counts: &sidecallv1.ErrorCounts{}}}
	addr, _ := fake.serve(t)
	got := command(t, "audit", "--addr", addr)
	if got.code != 0 || !strings.HasPrefix(got.out, "0 of 0 conversations that AppendMessages keeps") || strings.Contains(got.out, "because") || strings.Contains(got.out, "GAVE UP") {
		t.Errorf("%+v", got)
	}
}

func TestAnAuditThatCannotBe(t *testing.T) {
	fake := &fakeSidecar{tenant: "reader"}
	addr, _ := fake.serve(t)
	for line, want := range map[string]struct {
		code int
		says string
	}{
		"--sample 0":                  {exitUsage, "--sample 0: want 1 to 10000 conversations"},
		"--sample 10001":              {exitUsage, "--sample 10001: want 1 to 10000"},
		"--since 0d":                  {exitUsage, "want how long ago"},
		"--since -7d":                 {exitUsage, "want how long ago"},
		"--seed x":                    {exitUsage, "--seed"},
		"customer-7":                  {exitUsage, "a tool is named by --tool"},
		"--since 1h":                  {exitFailed, "no record of the tenant"},
		"--addr tcp://127.0.0.1:1":    {exitUnavailable, "no sidecar answers"},
		"--addr here":                 {exitUsage, "want tcp://host:port or unix:///path"},
		"--config x --addr tcp://a:1": {exitUsage, "[addr config]"},
	} {
		args := append([]string{"audit"}, strings.Fields(line)...)
		if !strings.Contains(line, "--addr") {
			args = append(args, "--addr", addr)
		}
		if got := command(t, args...); got.code != want.code || got.err == nil || !strings.Contains(got.err.Error(), want.says) {
			t.Errorf("%s: exit code %d, %v", line, got.code, got.err)
		}
	}
	if n := len(fake.audited); n != 1 {
		t.Errorf("%d requests arrived, want one", n)
	}
}
