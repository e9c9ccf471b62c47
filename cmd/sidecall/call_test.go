package main

import (
	"context"
	"strings"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

func TestANegativeTimeoutIsRefused(t *testing.T) {
	got := command(t, "call", "pay", "--timeout", "-1s")
	if got.code != exitUsage || got.err == nil || !strings.Contains(got.err.Error(), "--timeout -1s") {
		t.Errorf("exit code %d, %v", got.code, got.err)
	}
}

// A result without a record is remarked on, where a record was wanted.
func TestWhatIsSaidOfAResultWithoutARecord(t *testing.T) {
	fake := &fakeSidecar{execute: func(context.Context) (*sidecallv1.ExecuteToolResponse, error) {
		return &sidecallv1.ExecuteToolResponse{Content: "fine"}, nil
	}}
	addr, _ := fake.serve(t)
	for _, c := range []struct {
		flags []string
		says  string
	}{
		{nil, "sidecall: the result is not recorded; a resend may not find it\n"},
		{[]string{"--validate-only"}, ""},
		{[]string{"--json"}, ""},
	} {
		got := command(t, append([]string{"call", "pay", "--addr", addr}, c.flags...)...)
		if got.code != 0 || !strings.Contains(got.out, "fine") || got.errOut != c.says {
			t.Errorf("%v: %+v, want %q on stderr", c.flags, got, c.says)
		}
	}
}

// A conversation that is not given is made up, another one each time, and what to
// ask for the result with is printed.
func TestACallMakesUpItsConversation(t *testing.T) {
	var sent []*sidecallv1.ExecuteToolRequest
	fake := &fakeSidecar{execute: func(context.Context) (*sidecallv1.ExecuteToolResponse, error) {
		return &sidecallv1.ExecuteToolResponse{Content: "fine", Recorded: true}, nil
	}}
	fake.asked = func(req *sidecallv1.ExecuteToolRequest) { sent = append(sent, req) }
	addr, _ := fake.serve(t)
	first := command(t, "call", "pay", "--addr", addr, "--turn", "t1")
	flags, ok := strings.CutPrefix(first.errOut, "sidecall: the same call again: ")
	if !ok || first.code != 0 {
		t.Fatalf("%+v", first)
	}
	again := command(t, append([]string{"call", "pay", "--addr", addr}, strings.Fields(flags)...)...)
	other := command(t, "call", "pay", "--addr", addr, "--json")
	if again.code != 0 || again.errOut != "" || other.code != 0 || !strings.Contains(other.errOut, "--conversation ") {
		t.Errorf("%+v, %+v", again, other)
	}
	if len(sent) != 3 || sent[0].GetConversationId() == "" || sent[0].GetConversationId() != sent[1].GetConversationId() ||
		sent[0].GetToolUseId() != sent[1].GetToolUseId() || sent[1].GetTurnId() != "t1" || sent[2].GetConversationId() == sent[0].GetConversationId() {
		t.Errorf("sent %v", sent)
	}
}
