// Package identity finds out which call a request of MCP is. The protocol has no name for
// one: the id of a JSON-RPC request is another one each time it is sent again, and so may its
// progress token be. What is left is what clients write into _meta.
package identity

import (
	"crypto/rand"
	"encoding/json"
)

// The keys of _meta that say which call a request is.
const (
	ToolUseID    = "dev.sidecall/toolUseId"
	Conversation = "dev.sidecall/conversationId"
	Turn         = "dev.sidecall/turnId"
	Prompt       = "dev.sidecall/promptId"
)

// ConversationHeader is the HTTP header that names the conversation where _meta does not.
const ConversationHeader = "Sidecall-Conversation-Id"

// Call is the identity of a call.
type Call struct {
	ID, Conversation, Turn, Prompt string
	// Made: the request has no id, so this one was made for it. Sent again it is another call.
	Made bool
}

// world is a conversation of calls whose ids are nobody else's anyway.
const world = "mcp"

// known are the keys of clients that say which call a request is, the surest first.
var known = []struct {
	id string
	// unique: two calls never have the same one, whatever conversation they are of.
	unique bool
}{
	{ToolUseID, false},
	{"claudecode/toolUseId", true}, // Claude Code: the provider's id
	{"idempotency-key", false}, {"idempotency_key", false},
}

// Alone is the conversation of a call that is known by nothing but the id that was made for it:
// nobody else's calls are counted with it.
func Alone(id string) string { return world + "/" + id }

// Of returns the identity of a request by its _meta. scope is what else bounds the
// conversation of a request that names none: the session, the authenticated caller, or what a
// header says; empty where there is nothing.
func Of(meta map[string]any, scope string) Call {
	c := Call{
		Conversation: first(meta, Conversation, "threadId", "vscode.conversationId", "ai.opencode/sessionID"),
		Turn:         first(meta, Turn),
		Prompt:       first(meta, Prompt, "vscode.requestId"),
	}
	c.ofCodex(meta["x-codex-turn-metadata"])
	unique := false
	for _, key := range known {
		if c.ID = text(meta[key.id]); c.ID != "" {
			unique = key.unique
			break
		}
	}
	switch {
	case c.ID == "":
		c.ID, c.Made = "made_"+rand.Text(), true
		if c.Conversation == "" {
			c.Conversation = or(scope, Alone(c.ID))
		}
	case c.Conversation != "":
	case unique:
		c.Conversation = world // whatever session it is sent in the next time
	default:
		c.Conversation = scope
	}
	return c
}

// ofCodex reads what Codex says of its turn: an object, or the text of one.
func (c *Call) ofCodex(turn any) {
	if encoded, ok := turn.(string); ok {
		var decoded map[string]any
		if json.Unmarshal([]byte(encoded), &decoded) != nil {
			return
		}
		turn = decoded
	}
	said, _ := turn.(map[string]any)
	c.Conversation = or(c.Conversation, first(said, "thread_id", "session_id"))
	c.Turn = or(c.Turn, text(said["turn_id"]))
}

// first is the first of some keys that is a text.
func first(meta map[string]any, keys ...string) string {
	for _, key := range keys {
		if value := text(meta[key]); value != "" {
			return value
		}
	}
	return ""
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
