package mcp

import (
	"log/slog"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/identity"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

func TestTheConversationOfARequest(t *testing.T) {
	for what, test := range map[string]struct {
		meta  sdk.Meta
		scope string
		want  identity.Call
	}{
		"its own":               {sdk.Meta{identity.ToolUse: "t", identity.Conversation: "c"}, "s", identity.Call{ToolUse: "t", Conversation: "c"}},
		"that of its session":   {sdk.Meta{identity.ToolUse: "t"}, "s", identity.Call{ToolUse: "t", Conversation: "s"}},
		"none":                  {sdk.Meta{identity.ToolUse: "t"}, "", identity.Call{ToolUse: "t"}},
		"of ids that are alone": {sdk.Meta{"claudecode/toolUseId": "toolu_1"}, "s", identity.Call{ToolUse: "toolu_1", Conversation: "mcp"}},
		"of an id of ours":      {sdk.Meta{"claudecode/toolUseId": "toolu_1", identity.ToolUse: "t"}, "s", identity.Call{ToolUse: "t", Conversation: "s"}},
	} {
		if got, err := name(test.meta, test.scope); err != nil || got.Call != test.want || got.made {
			t.Errorf("%s: %+v, %v, want %+v", what, got, err, test.want)
		}
	}
	if _, err := name(sdk.Meta{identity.ToolUse: 7}, "s"); err == nil || !strings.Contains(err.Error(), identity.ToolUse) {
		t.Errorf("an id that is a number: %v", err)
	}
}

// What changes when a request is sent again is no name of a call.
func TestWithoutAnIDEveryRequestIsACallOfItsOwn(t *testing.T) {
	meta := sdk.Meta{"progressToken": "p", "vscode.requestId": "r"}
	one, err := name(meta, "")
	if err != nil {
		t.Fatal(err)
	}
	other, err := name(meta, "")
	if err != nil {
		t.Fatal(err)
	}
	if !one.made || !other.made || one.ToolUse == other.ToolUse || one.Conversation == other.Conversation {
		t.Errorf("two requests without an id are %+v and %+v", one, other)
	}
	id := one.ToolUse
	if other.again(id); other.ToolUse != id || other.Conversation != one.Conversation {
		t.Errorf("the second round is %+v, want %+v", other, one)
	}
	if in, err := name(meta, "session 1"); err != nil || in.Conversation != "session 1" {
		t.Errorf("in a session it is %+v, %v", in, err)
	}
}

// That nobody knows such a call again is said once, where it matters.
func TestCallsWithoutAnIDAreToldToTheLog(t *testing.T) {
	var log strings.Builder
	f := &face{servers: servers{options: &Options{Log: slog.New(slog.NewTextHandler(&log, nil))}}, listed: map[string]*sidecallv1.Tool{
		"look": {Effect: sidecallv1.Effect_EFFECT_READ_ONLY}, "pay": {Effect: sidecallv1.Effect_EFFECT_NON_IDEMPOTENT},
	}}
	for _, tool := range []string{"look", "nobody's"} {
		f.unnamed(tool)
	}
	if log.Len() > 0 {
		t.Errorf("of what has no effect it says %s", log.String())
	}
	for range 2 {
		f.unnamed("pay")
	}
	if n := strings.Count(log.String(), "sent again it is another call"); n != 1 || !strings.Contains(log.String(), "tool=pay") {
		t.Errorf("it is said %d times: %s", n, log.String())
	}
}
