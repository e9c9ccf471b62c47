package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

func (f *fakeSidecar) VerifyReceipts(ctx context.Context, req *sidecallv1.VerifyReceiptsRequest) (*sidecallv1.VerifyReceiptsResponse, error) {
	f.noted = append(f.noted, req.GetNotedHead())
	if found := f.receipts[req.GetConversationId()]; found != nil {
		found.ConversationId = req.GetConversationId()
		return found, f.ofItsTenant(ctx)
	}
	if req.GetConversationId() == "never" {
		return nil, status.Error(codes.NotFound, "conversation_id: there is no such conversation")
	}
	return &sidecallv1.VerifyReceiptsResponse{Enabled: true}, f.ofItsTenant(ctx)
}

// withReceipts has a conversation in which all is well, one in which it is not, and others.
func withReceipts() *fakeSidecar {
	return &fakeSidecar{
		receipts: map[string]*sidecallv1.VerifyReceiptsResponse{
			"good": {Head: "12:9f86", Receipts: 12, Checked: 9, Forgotten: 3, Since: at(1), Enabled: true},
			"bad":  {Head: "2:ab", Receipts: 2, Checked: 2, Since: at(2), Problems: []string{"receipt 1 is \x1b missing", "the record of \"a\" is missing"}, ProblemsLeft: 1, More: true},
			"old":  {Head: "4:cd", Receipts: 4, Forgotten: 4},
			"off":  {},
		},
		listed: []*sidecallv1.ListConversationsResponse{
			{Conversations: []*sidecallv1.ConversationSummary{{ConversationId: "good"}, {ConversationId: "never"}, {ConversationId: "none"}}, NextPageToken: "1"},
			{Conversations: []*sidecallv1.ConversationSummary{{ConversationId: "old"}}},
		},
	}
}

// Receipts are verified of one conversation, or of all; what was changed is the exit code too.
func TestReceiptsOnATerminal(t *testing.T) {
	fake := withReceipts()
	addr, _ := fake.serve(t)
	for line, want := range map[string]struct {
		code int
		says string // in the output, or in the errors
	}{
		"--conversation good":                {0, "good: nothing was changed or left out since 2026-11-26 03:00:01Z\n  12 receipts, 9 compared, the first 3 are forgotten\n  head 12:9f86\n"},
		"--conversation bad":                 {exitFailed, "bad: 3 problems\n  CHANGED  receipt 1 is \\x1b missing\n  CHANGED  the record of \"a\" is missing\n"},
		"--conversation old":                 {0, "old: all receipts are forgotten\n"},
		"--conversation none":                {0, "sidecall: there is no receipt of none: nothing with an effect was settled in it"},
		"--conversation never":               {exitFailed, "there is no such conversation"},
		"--conversation off":                 {0, "sidecall: there is no receipt of off: receipts is not set in the config"},
		"":                                   {0, "good: nothing was changed"},
		"--conversation good --noted 7:abcd": {0, "good: nothing was changed"},
		"--noted 7:abcd":                     {exitUsage, "--noted needs --conversation"},
		"good":                               {exitUsage, "a conversation is named by --conversation"},
		"--conversation good --tenant x":     {exitFailed, "no record of the tenant"},
	} {
		got := command(t, append([]string{"receipts", "verify", "--addr", addr}, strings.Fields(line)...)...)
		said := got.out + got.errOut
		if got.err != nil {
			said += got.err.Error()
		}
		if got.code != want.code || !strings.Contains(said, want.says) {
			t.Errorf("%s: exit code %d: %s", line, got.code, said)
		}
	}
	if all := command(t, "receipts", "verify", "--addr", addr); strings.Contains(all.out, "none") || !strings.Contains(all.out, "old") {
		t.Errorf("of all: %s", all.out)
	}
	nobody := &fakeSidecar{listed: []*sidecallv1.ListConversationsResponse{{Conversations: []*sidecallv1.ConversationSummary{{ConversationId: "none"}}}}}
	nowhere, _ := nobody.serve(t)
	for _, how := range []string{"--json=false", "--json"} { // what was not compared is not said to be well
		if got := command(t, "receipts", "verify", how, "--addr", nowhere); got.code != 0 || !strings.Contains(got.errOut, "nothing was compared: of 1 conversation that AppendMessages keeps none has a receipt") {
			t.Errorf("%s: %+v", how, got)
		}
	}
	if got := command(t, "receipts"); got.code != exitUsage {
		t.Errorf("%+v", got)
	}
	asJSON := command(t, "receipts", "verify", "--conversation", "bad", "--json", "--addr", addr)
	var said struct {
		Problems []string `json:"problems"`
	}
	if err := json.Unmarshal([]byte(asJSON.out), &said); asJSON.code != exitFailed || err != nil || len(said.Problems) != 2 {
		t.Errorf("%+v: %v", asJSON, err)
	}
	var every []struct {
		ConversationID string `json:"conversation_id"`
	}
	list := command(t, "receipts", "verify", "--json", "--addr", addr)
	if err := json.Unmarshal([]byte(list.out), &every); err != nil || len(every) != 2 || every[0].ConversationID != "good" || every[1].ConversationID != "old" {
		t.Errorf("of all, as JSON: %+v, %v", list, err)
	}
	fake.listed[1].Conversations[0].ConversationId = "bad"
	if got := command(t, "receipts", "verify", "--addr", addr); got.code != exitFailed || !strings.Contains(got.out, "good") || !strings.Contains(got.out, "bad") {
		t.Errorf("of all, one of which was changed: %+v", got)
	}
}
