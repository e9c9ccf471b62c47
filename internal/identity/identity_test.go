package identity_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/identity"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meta string
		want identity.Call
	}{
		"nothing":           {``, identity.Call{}},
		"null":              {`null`, identity.Call{}},
		"no object":         {`[1]`, identity.Call{}},
		"a progress token":  {`{"progressToken": "p1"}`, identity.Call{}},
		"Sidecall's own":    {`{"dev.sidecall/toolUseId":"t","dev.sidecall/conversationId":"c","dev.sidecall/turnId":"n","dev.sidecall/promptId":"p"}`, identity.Call{ToolUse: "t", Conversation: "c", Turn: "n", Prompt: "p"}},
		"Sidecall's first":  {`{"claudecode/toolUseId":"x","idempotency-key":"k","dev.sidecall/toolUseId":"t"}`, identity.Call{ToolUse: "t"}},
		"Claude Code":       {`{"claudecode/toolUseId":"toolu_1","progressToken":4}`, identity.Call{ToolUse: "toolu_1"}},
		"Codex":             {`{"threadId":"t","x-codex-turn-metadata":{"session_id":"s","thread_id":"t","turn_id":"n"}}`, identity.Call{Conversation: "s", Turn: "n"}},
		"Codex, as a text":  {`{"x-codex-turn-metadata":"{\"thread_id\":\"t\",\"turn_id\":\"n\"}"}`, identity.Call{Conversation: "t", Turn: "n"}},
		"Codex, its thread": {`{"threadId":"t","x-codex-turn-metadata":7}`, identity.Call{Conversation: "t"}},
		"VS Code":           {`{"vscode.conversationId":"c","vscode.requestId":"r"}`, identity.Call{Conversation: "c", Turn: "r"}},
		"opencode":          {`{"ai.opencode/sessionID":"s"}`, identity.Call{Conversation: "s"}},
		"commerce":          {`{"idempotency-key":"k"}`, identity.Call{ToolUse: "k"}},
		"commerce, too":     {`{"idempotency_key":"k"}`, identity.Call{ToolUse: "k"}},
		"others' nonsense":  {`{"claudecode/toolUseId":{"a":1},"idempotency-key":7,"threadId":""}`, identity.Call{}},
		"in other letters":  {`{"DEV.SIDECALL/TOOLUSEID":"t","IDEMPOTENCY-KEY":"k"}`, identity.Call{}},
	} {
		if got, err := identity.Of(json.RawMessage(c.meta)); err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

// An id that is Sidecall's own and no text is a mistake of who has put it there: to run the call
// without an identity would break what it asks for.
func TestAnIDOfAWrongType(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`7`, `""`, `null`, `["t"]`, `true`} {
		for _, name := range []string{identity.ToolUse, identity.Conversation, identity.Turn, identity.Prompt} {
			_, err := identity.Of(json.RawMessage(`{"` + name + `":` + value + `}`))
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %s: %v", name, value, err)
			}
		}
	}
}

func TestRound(t *testing.T) {
	t.Parallel()
	call := identity.Call{ToolUse: "t", Conversation: "c"}
	one, again, two := call.Round(json.RawMessage(`"a"`)), call.Round(json.RawMessage(`"a"`)), call.Round(json.RawMessage(`"b"`))
	switch {
	case call.Round(nil) != call:
		t.Error("the first round is another call")
	case one == call, one == two:
		t.Error("two rounds are one call")
	case one != again:
		t.Error("a round that is repeated is another call")
	case identity.RequestOf(one.ToolUse) != "t", identity.RequestOf("t")+identity.RequestOf("t#1")+identity.RequestOf("t#") != "":
		t.Error("a round is not known by its id, or another call is taken for one")
	case one.Conversation != "c", !strings.HasPrefix(one.ToolUse, "t#"):
		t.Errorf("%+v", one)
	}
	if nobody := (identity.Call{}).Round(json.RawMessage(`"a"`)); nobody != (identity.Call{}) {
		t.Errorf("a state identifies a call: %+v", nobody)
	}
}
