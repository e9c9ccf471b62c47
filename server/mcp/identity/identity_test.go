package identity

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	type meta = map[string]any
	for name, test := range map[string]struct {
		meta  meta
		scope string
		want  Call
	}{
		"all of it":         {meta{ToolUseID: "t", Conversation: "c", Turn: "1", Prompt: "p"}, "s", Call{ID: "t", Conversation: "c", Turn: "1", Prompt: "p"}},
		"only an id":        {meta{ToolUseID: "t"}, "s", Call{ID: "t", Conversation: "s"}},
		"nothing around":    {meta{ToolUseID: "t"}, "", Call{ID: "t"}},
		"Claude Code":       {meta{"claudecode/toolUseId": "toolu_1"}, "session 1", Call{ID: "toolu_1", Conversation: "mcp"}},
		"ours wins":         {meta{"claudecode/toolUseId": "toolu_1", ToolUseID: "t"}, "s", Call{ID: "t", Conversation: "s"}},
		"an idempotency":    {meta{"idempotency-key": "k"}, "s", Call{ID: "k", Conversation: "s"}},
		"its other name":    {meta{"idempotency_key": "k"}, "s", Call{ID: "k", Conversation: "s"}},
		"VS Code":           {meta{"vscode.conversationId": "v", "vscode.requestId": "r", "idempotency-key": "k"}, "", Call{ID: "k", Conversation: "v", Prompt: "r"}},
		"opencode":          {meta{"ai.opencode/sessionID": "o", ToolUseID: "t"}, "", Call{ID: "t", Conversation: "o"}},
		"Codex":             {meta{"threadId": "th", "x-codex-turn-metadata": meta{"session_id": "s", "turn_id": "u"}, ToolUseID: "t"}, "", Call{ID: "t", Conversation: "th", Turn: "u"}},
		"Codex, as text":    {meta{"x-codex-turn-metadata": `{"session_id":"s","thread_id":"th","turn_id":"u"}`, ToolUseID: "t"}, "", Call{ID: "t", Conversation: "th", Turn: "u"}},
		"Codex, no object":  {meta{"x-codex-turn-metadata": `[`, ToolUseID: "t"}, "s", Call{ID: "t", Conversation: "s"}},
		"of a wrong type":   {meta{ToolUseID: 7, "claudecode/toolUseId": "toolu_1"}, "s", Call{ID: "toolu_1", Conversation: "mcp"}},
		"empty is not said": {meta{ToolUseID: "", "idempotency_key": "k"}, "s", Call{ID: "k", Conversation: "s"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Of(test.meta, test.scope); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// What changes when a request is sent again is no name of a call.
func TestWithoutAnIDEveryRequestIsACallOfItsOwn(t *testing.T) {
	meta := map[string]any{"progressToken": "p", "vscode.requestId": "r"}
	one, other := Of(meta, ""), Of(meta, "")
	if !one.Made || !other.Made || one.ID == other.ID || one.Conversation == other.Conversation {
		t.Errorf("two requests without an id are %+v and %+v", one, other)
	}
	if !strings.HasSuffix(one.Conversation, one.ID) {
		t.Errorf("the conversation of a call of its own is %q", one.Conversation)
	}
	if got := Of(nil, "session 1"); got.Conversation != "session 1" {
		t.Errorf("the conversation of a request in a session is %q", got.Conversation)
	}
}
