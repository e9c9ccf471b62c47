package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

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

// What is told to ask again with can be copied, whatever an id or a turn is called.
func TestTheFlagsToAskAgainWithCanBeCopied(t *testing.T) {
	fake := &fakeSidecar{execute: func(context.Context) (*sidecallv1.ExecuteToolResponse, error) {
		return &sidecallv1.ExecuteToolResponse{Content: "fine", Recorded: true}, nil
	}}
	addr, _ := fake.serve(t)
	got := command(t, "call", "pay", "--addr", addr, "--id", "order 1\x1b[2J", "--turn", "it's")
	if !strings.Contains(got.errOut, `--id $'order 1\x1b[2J' `) || !strings.HasSuffix(got.errOut, ` --turn 'it'\''s'`+"\n") {
		t.Errorf("%q", got.errOut)
	}
}

// What is no UTF-8 is sent nowhere: that is the command line's fault, and not the sidecar's.
func TestACommandLineThatIsNoUTF8(t *testing.T) {
	fake := &fakeSidecar{}
	addr, _ := fake.serve(t)
	for _, args := range [][]string{
		{"call", "pay", "{\"a\":\"\xff\"}"},
		{"find", "--id", "\xff"},
		{"resolve", "--id", "\xff", "--as", "done", "--reason", "looked", "--yes"},
	} {
		got := command(t, append(args, "--addr", addr)...)
		if got.code != exitUsage || got.err == nil || !strings.Contains(got.err.Error(), "UTF-8") || strings.Contains(got.err.Error(), "grpc") {
			t.Errorf("%s: %+v", args[0], got)
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

// Each flag is the field that it is called by.
func TestFlagsOfACall(t *testing.T) {
	var sent *sidecallv1.ExecuteToolRequest
	fake := &fakeSidecar{execute: func(context.Context) (*sidecallv1.ExecuteToolResponse, error) {
		return &sidecallv1.ExecuteToolResponse{Content: "fine", Recorded: true}, nil
	}}
	fake.asked = func(req *sidecallv1.ExecuteToolRequest) { sent = req }
	addr, _ := fake.serve(t)
	got := command(t, "call", "pay", `{"cents":1}`, "--addr", addr, "--id", "i", "--conversation", "c", "--turn", "t", "--prompt", "p", "--profile", "code",
		"--allow-duplicate-effect", "--validate-only", "--max-output-chars", "7", "--timeout", "2s")
	want := &sidecallv1.ExecuteToolRequest{
		ToolUseId: "i", ToolName: "pay", ArgumentsJson: `{"cents":1}`, ConversationId: "c", TurnId: "t", PromptId: "p", Profile: "code",
		AllowDuplicateEffect: true, ValidateOnly: true, MaxOutputChars: 7, Timeout: durationpb.New(2 * time.Second),
	}
	if got.code != 0 || !proto.Equal(sent, want) {
		t.Errorf("%+v: sent %v, want %v", got, sent, want)
	}
}

// Arguments come from the command line, from a file or from stdin.
func TestArgumentsOfACallFromAFile(t *testing.T) {
	var sent []string
	fake := &fakeSidecar{execute: func(context.Context) (*sidecallv1.ExecuteToolResponse, error) {
		return &sidecallv1.ExecuteToolResponse{Content: "fine", Recorded: true}, nil
	}}
	fake.asked = func(req *sidecallv1.ExecuteToolRequest) { sent = append(sent, req.GetArgumentsJson()) }
	addr, _ := fake.serve(t)
	path := filepath.Join(t.TempDir(), "args.json")
	if err := os.WriteFile(path, []byte("{\"a\":1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, arguments := range []string{"@" + path, "-", `{"c":3}`} {
		if got := commandOf(t, strings.NewReader(`{"b":2}`), "call", "pay", arguments, "--addr", addr); got.code != 0 {
			t.Errorf("%s: %+v", arguments, got)
		}
	}
	if got := strings.Join(sent, " "); got != "{\"a\":1}\n {\"b\":2} {\"c\":3}" {
		t.Errorf("sent %s", got)
	}
}

// A file that cannot be read sends nothing, and the file is named.
func TestArgumentsThatCannotBeRead(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxArguments+1); err != nil {
		t.Fatal(err)
	}
	for arguments, says := range map[string]string{
		"@/not/there": "JSON: open /not/there", "@" + large: large + " has more than", "@" + t.TempDir(): "is a directory", "@": "JSON: @: want a file name after @",
	} {
		got := command(t, "call", "pay", arguments)
		if got.code != exitUsage || got.err == nil || !strings.Contains(got.err.Error(), says) {
			t.Errorf("%s: %+v", arguments, got)
		}
	}
}

// A call that has never been sent is not offered to be asked for again; one whose answer is lost is.
func TestOnlyACallThatWasSentIsAskedForAgain(t *testing.T) {
	fake := &fakeSidecar{}
	addr, _ := fake.serve(t)
	for name, c := range map[string]struct {
		args []string
		err  error
		sent bool
	}{
		"no sidecar":       {args: []string{"call", "pay", "--addr", "unix:///nowhere/agent.sock"}},
		"it is not UTF-8":  {args: []string{"call", "pay", "{\"a\":\"\xff\"}", "--addr", addr}},
		"refused unread":   {args: []string{"call", "pay", "--addr", addr}, err: status.Error(codes.InvalidArgument, "no tool_name")},
		"no right to call": {args: []string{"call", "pay", "--addr", addr}, err: status.Error(codes.PermissionDenied, "no such tenant")},
		"its end is lost":  {args: []string{"call", "pay", "--addr", addr}, err: status.Error(codes.Unavailable, "transport is closing"), sent: true},
		"it took too long": {args: []string{"call", "pay", "--addr", addr}, err: status.Error(codes.DeadlineExceeded, "too late"), sent: true},
	} {
		fake.execute = func(context.Context) (*sidecallv1.ExecuteToolResponse, error) { return nil, c.err }
		if got := command(t, c.args...); got.err == nil || strings.Contains(got.errOut, "the same call again: ") != c.sent {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
