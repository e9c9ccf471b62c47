package main

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

func (f *fakeSidecar) ShowConversation(ctx context.Context, req *sidecallv1.ShowConversationRequest) (*sidecallv1.ShowConversationResponse, error) {
	if err := f.ofItsTenant(ctx); err != nil {
		return nil, err
	}
	pages := f.shown[req.GetConversationId()]
	if len(pages) == 0 {
		return nil, status.Error(codes.NotFound, "conversation_id: of this tenant there is no such conversation")
	}
	at := int32(0)
	for _, page := range pages {
		if at >= req.GetFromEvent() {
			return page, nil
		}
		at += int32(len(page.GetEvents()))
	}
	return pages[len(pages)-1], nil
}

func (f *fakeSidecar) ListConversations(ctx context.Context, req *sidecallv1.ListConversationsRequest) (*sidecallv1.ListConversationsResponse, error) {
	at, _ := strconv.Atoi(req.GetPageToken()) // 0 at the beginning
	if len(f.listed) == 0 {
		return &sidecallv1.ListConversationsResponse{}, nil
	}
	return f.listed[at], f.ofItsTenant(ctx)
}

func (f *fakeSidecar) AuditConversations(ctx context.Context, req *sidecallv1.AuditConversationsRequest) (*sidecallv1.AuditConversationsResponse, error) {
	f.audited = append(f.audited, req)
	return f.audit, f.ofItsTenant(ctx)
}

// wantNarrow wants a text as it is in testdata, each line as wide as a terminal at most.
func wantNarrow(t *testing.T, name, got string) {
	t.Helper()
	for line := range strings.Lines(got) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
			t.Errorf("a line of %d: %q", n, line)
		}
	}
	golden(t, name, got)
}

func at(seconds int) *timestamppb.Timestamp {
	return timestamppb.New(time.Date(2026, 11, 26, 3, 0, seconds, 0, time.UTC))
}

const (
	aUser  = sidecallv1.ConversationEventKind_CONVERSATION_EVENT_KIND_USER
	aModel = sidecallv1.ConversationEventKind_CONVERSATION_EVENT_KIND_MODEL
	aCall  = sidecallv1.ConversationEventKind_CONVERSATION_EVENT_KIND_CALL
	unread = sidecallv1.ConversationEventKind_CONVERSATION_EVENT_KIND_UNREADABLE
)

// incident is a conversation in two pages, with what can be in one.
func incident() []*sidecallv1.ShowConversationResponse {
	call := func(c *sidecallv1.ConversationCall) *sidecallv1.ConversationEvent {
		return &sidecallv1.ConversationEvent{Kind: aCall, Prompt: 1, PromptId: "p-1", Call: c}
	}
	done := &sidecallv1.Execution{State: sidecallv1.ExecutionState_EXECUTION_STATE_DONE, Attempts: 3, StartedAt: at(1), FinishedAt: at(3)}
	first := &sidecallv1.ShowConversationResponse{
		Messages: 8, Provider: "anthropic", StartedAt: at(0), UpdatedAt: at(9), EventsTotal: 11, NextEvent: 4, FirstUnrecovered: 3, RecordsKept: durationpb.New(24 * time.Hour),
		Counts: &sidecallv1.ErrorCounts{Calls: 5, Errors: 3, Recovered: 1, GaveUp: 2, Spun: 1},
		Events: []*sidecallv1.ConversationEvent{
			{Kind: aUser, Prompt: 1, PromptId: "p-1", Text: "refund A-77,\nplease"},
			{Kind: aModel, Prompt: 1, PromptId: "p-1", Text: "I look it up."},
			call(&sidecallv1.ConversationCall{ToolUseId: "c1", TurnId: "t1", ToolName: "get_order", ArgumentsJson: `{"id":"77"}`, Answered: true, Text: `{"code":"INVALID_ARGS"}`,
				Error: &sidecallv1.ConversationError{Code: "INVALID_ARGS", Fate: sidecallv1.ErrorFate_ERROR_FATE_RECOVERED, Vague: []string{"it is vague"}, NextTool: "get_order", NextDifferences: []string{`id: "A-77", was "77"`}}}),
			call(&sidecallv1.ConversationCall{ToolUseId: "c2", TurnId: "t2", ToolName: "refund", ArgumentsJson: `{"order_id":"A-77"}`, Record: sidecallv1.RecordKnown_RECORD_KNOWN_FOUND, Execution: done,
				Answered: true, Text: "Error: the \x1b[31mledger\x1b[0m says no " + strings.Repeat("word ", 20), TextCut: true,
				Error: &sidecallv1.ConversationError{Fate: sidecallv1.ErrorFate_ERROR_FATE_GAVE_UP, Spun: true, Vague: []string{"it is plain text", "the model made the same call again after it"}, NextText: "Once more.", NextTool: "refund", NextAgain: true}}),
		},
	}
	second := &sidecallv1.ShowConversationResponse{
		EventsTotal: 11, FirstUnrecovered: 3, MoreCalls: true,
		Events: []*sidecallv1.ConversationEvent{
			call(&sidecallv1.ConversationCall{ToolUseId: "c3", ToolName: "refund", Record: sidecallv1.RecordKnown_RECORD_KNOWN_FORGOTTEN, Answered: true, Text: "no", ArgumentsJson: `{"order_id":"A-77"}`, ArgumentsCut: true,
				Error: &sidecallv1.ConversationError{Code: "BUSINESS_RULE", Fate: sidecallv1.ErrorFate_ERROR_FATE_GAVE_UP, NextTool: "escalate"}}),
			call(&sidecallv1.ConversationCall{ToolUseId: "c6", ToolName: "escalate", Record: sidecallv1.RecordKnown_RECORD_KNOWN_FOUND, Answered: true, Text: "not now",
				Execution: &sidecallv1.Execution{State: sidecallv1.ExecutionState_EXECUTION_STATE_CLOSED, StartedAt: at(4), FinishedAt: at(4)}}),
			call(&sidecallv1.ConversationCall{ToolUseId: "c7", ToolName: "refund", Record: sidecallv1.RecordKnown_RECORD_KNOWN_FOUND, Execution: done, Resolution: &sidecallv1.Resolution{By: "root", ClaimedBy: "oncall", At: at(300)}}),
			call(&sidecallv1.ConversationCall{ToolUseId: "c4", ToolName: "escalate", Record: sidecallv1.RecordKnown_RECORD_KNOWN_FOUND, Damage: "its checksum is wrong"}),
			{Kind: unread, Prompt: 1, PromptId: "p-1", Text: "this message cannot be read: at byte 3"},
			{Kind: aUser, Prompt: 2, Text: "hello?"},
			{Kind: aCall, Prompt: 3, Unappended: true, Call: &sidecallv1.ConversationCall{ToolUseId: "c5", ToolName: "pay", Text: "no", Record: sidecallv1.RecordKnown_RECORD_KNOWN_FOUND,
				Execution: &sidecallv1.Execution{State: sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN, StartedAt: at(5)},
				Error:     &sidecallv1.ConversationError{Code: "OUTCOME_UNKNOWN", Fate: sidecallv1.ErrorFate_ERROR_FATE_OPEN, NextNothing: true}}},
		},
	}
	return []*sidecallv1.ShowConversationResponse{first, second}
}

// What there is to a conversation is shown on a narrow terminal: every page of it, the
// first error that was not recovered from with its mark, nothing that moves the cursor.
func TestAConversationOnATerminal(t *testing.T) {
	alone := &sidecallv1.ShowConversationResponse{
		EventsTotal: 1, FirstUnrecovered: -1, RecordsKept: durationpb.New(24 * time.Hour), Counts: &sidecallv1.ErrorCounts{Calls: 1, Errors: 1, Recovered: 1},
		Events: []*sidecallv1.ConversationEvent{{Kind: aCall, Prompt: 1, PromptId: "p", Unappended: true, Call: &sidecallv1.ConversationCall{ToolUseId: "c1", ToolName: "pay", Answered: true, Text: "paid"}}},
	}
	fake := &fakeSidecar{shown: map[string][]*sidecallv1.ShowConversationResponse{"customer 7": incident(), "alone": {alone}}}
	addr, _ := fake.serve(t)
	got := command(t, "conversations", "show", "customer 7", "--addr", addr)
	if got.code != 0 || strings.Contains(got.out, "\x1b") {
		t.Errorf("%+v", got)
	}
	wantNarrow(t, "show.messages.golden.txt", got.out)
	got = command(t, "conversations", "show", "alone", "--addr", addr)
	if got.code != 0 {
		t.Errorf("%+v", got)
	}
	wantNarrow(t, "show.calls.golden.txt", got.out)
}

// For programs all pages are one.
func TestAConversationAsJSON(t *testing.T) {
	fake := &fakeSidecar{shown: map[string][]*sidecallv1.ShowConversationResponse{"c": incident()}}
	addr, _ := fake.serve(t)
	got := command(t, "conversations", "show", "c", "--json", "--addr", addr)
	var said struct {
		Events []json.RawMessage `json:"events"`
		First  int               `json:"first_unrecovered"`
		Next   int               `json:"next_event"`
	}
	if err := json.Unmarshal([]byte(got.out), &said); got.code != 0 || err != nil || len(said.Events) != 11 || said.First != 3 || said.Next != 0 || !strings.Contains(string(said.Events[3]), "ledger") {
		t.Errorf("%+v: %v", got, err)
	}
}

// What cannot be shown is told with the exit code that is documented.
func TestAConversationThatCannotBeShown(t *testing.T) {
	turning := incident()[:1]
	turning[0].NextEvent, turning[0].Events = 1, nil
	fake := &fakeSidecar{shown: map[string][]*sidecallv1.ShowConversationResponse{"c": incident(), "turning": turning}, tenant: "reader"}
	addr, _ := fake.serve(t)
	for line, want := range map[string]struct {
		code int
		says string
	}{
		"show c --tenant reader":       {0, ""},
		"show none --tenant reader":    {exitFailed, "of this tenant there is no such conversation"},
		"show c":                       {exitFailed, "no record of the tenant"},
		"show turning --tenant reader": {exitUnavailable, "round in circles"},
		"show":                         {exitUsage, "name the conversation"},
		"show a b":                     {exitUsage, "one conversation at a time"},
		"":                             {exitUsage, "conversations list, show ID or undo ID"},
		"c":                            {exitUsage, "want list, show ID, or undo ID"},
		"list --since week":            {exitUsage, "want how long ago, as in 90m, 24h or 7d"},
		"list --limit -1":              {exitUsage, "--limit: must not be negative"},
		"list c":                       {exitUsage, "a conversation is shown by"},
		"show c --tenant reader --addr tcp://127.0.0.1:1": {exitUnavailable, "no sidecar answers"},
	} {
		args := append([]string{"conversations"}, strings.Fields(line)...)
		if strings.HasPrefix(line, "show ") && !strings.Contains(line, "--addr") || strings.HasPrefix(line, "list ") {
			args = append(args, "--addr", addr)
		}
		got := command(t, args...)
		if got.code != want.code || want.says != "" && (got.err == nil || !strings.Contains(got.err.Error(), want.says)) {
			t.Errorf("%s: exit code %d, %v", line, got.code, got.err)
		}
	}
}

// The list of conversations is in pages, and those of long ago are left out.
func TestConversationsAreListed(t *testing.T) {
	ago := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(time.Now().Add(-d)) }
	fake := &fakeSidecar{listed: []*sidecallv1.ListConversationsResponse{
		{Conversations: []*sidecallv1.ConversationSummary{{ConversationId: "new", Version: 4, OpenCalls: 1, UpdatedAt: ago(time.Minute)}, {ConversationId: "old", UpdatedAt: ago(100 * time.Hour)}}, NextPageToken: "1"},
		{Conversations: []*sidecallv1.ConversationSummary{{ConversationId: "broken", Damage: "its head fails its checksum"}, {ConversationId: "newer", UpdatedAt: ago(0)}}},
	}}
	addr, _ := fake.serve(t)
	for line, want := range map[string]string{
		"":                      "new old broken newer",
		"--since 3d":            "new broken newer",
		"--since 3d --limit 2":  "new broken",
		"--limit 1":             "new",
		"--since 30s --limit 1": "broken",
	} {
		got := command(t, append([]string{"conversations", "list", "--addr", addr}, strings.Fields(line)...)...)
		var ids []string
		for _, id := range []string{"new", "old", "broken", "newer"} {
			if slices.Contains(strings.Fields(got.out), id) {
				ids = append(ids, id)
			}
		}
		if got.code != 0 || strings.Join(ids, " ") != want || strings.Contains(got.errOut, "and more") != strings.Contains(line, "limit") {
			t.Errorf("%s: %+v", line, got)
		}
		asJSON := command(t, append([]string{"conversations", "list", "--json", "--addr", addr}, strings.Fields(line)...)...)
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(asJSON.out), &list); err != nil || len(list) != len(ids) {
			t.Errorf("%s: %+v, %v", line, asJSON, err)
		}
	}
	empty, _ := (&fakeSidecar{}).serve(t)
	if got := command(t, "conversations", "list", "--since", "24h", "--addr", empty); got.code != 0 || got.out != "" || !strings.Contains(got.errOut, "no conversation is kept that was appended to in the last 24h: AppendMessages keeps them") {
		t.Errorf("%+v", got)
	}
}

// What may be repeated is not run, as its record has it, when nobody knows: who reads on is told so, as by find.
func TestACallThatMayHaveRunIsShownAsThat(t *testing.T) {
	for effect, want := range map[sidecallv1.Effect]bool{
		sidecallv1.Effect_EFFECT_READ_ONLY: false, sidecallv1.Effect_EFFECT_NON_IDEMPOTENT: false,
		sidecallv1.Effect_EFFECT_IDEMPOTENT: true, sidecallv1.Effect_EFFECT_KEYED: true,
	} {
		says := recordOf(&sidecallv1.ConversationCall{Execution: &sidecallv1.Execution{State: sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN, Effect: effect, Attempts: 3}})
		if strings.HasPrefix(says, "NOT_RUN, but it may have run, 3 attempts") != want {
			t.Errorf("%s: %s", effect, says)
		}
	}
}
