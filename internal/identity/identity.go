// Package identity reads off a request of MCP which call it is of.
//
// MCP has no field for that. Its JSON-RPC id names a request, and the revision of 2026-07-28
// has a client send a request again under another one; a progress token names a wish to hear of
// it. Neither is ever taken. What is taken stands in _meta, where clients put what they know:
//
//	               tool use                      conversation                 turn             prompt
//	Sidecall's     dev.sidecall/toolUseId        …/conversationId             …/turnId         …/promptId
//	Claude Code    claudecode/toolUseId
//	Codex                                        session_id, else thread_id,  turn_id
//	                                             of x-codex-turn-metadata,
//	                                             else threadId
//	VS Code                                      vscode.conversationId        vscode.requestId
//	opencode                                     ai.opencode/sessionID
//	a sidecar      dev.sidecall/idempotencyKey
//	commerce       idempotency-key,
//	               idempotency_key
//
// Of each column the first that is there counts. A conversation or a turn alone identifies no
// call: a request without a tool use has no identity.
package identity

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// prefix is before the names that are Sidecall's own.
const prefix = "dev.sidecall/"

// The names in _meta that are Sidecall's own.
const (
	ToolUse      = prefix + "toolUseId"
	Conversation = prefix + "conversationId"
	Turn         = prefix + "turnId"
	Prompt       = prefix + "promptId"
	// Key is the idempotency key that a server gets: two calls never have the same one.
	Key = prefix + "idempotencyKey"
)

// Call is what a request says of the call that it is of. Empty is what it does not say.
type Call struct {
	ToolUse, Conversation, Turn, Prompt string
}

// Extension is the name under which a server says, among its experimental capabilities, that it
// honours Key: a call that is sent again with it has no second effect, and is answered as the
// first time.
const Extension = prefix + "idempotency"

// Of reads what _meta says. What others have put there is taken if it is a text that is not
// empty, and else for nothing; a name of Sidecall's own that has another value is an error.
func Of(meta json.RawMessage) (c Call, err error) {
	var says map[string]json.RawMessage
	if jsontext.Value(meta).Kind() == jsontext.KindBeginObject {
		err = json.Unmarshal(meta, &says)
	}
	for _, name := range [...]string{ToolUse, Conversation, Turn, Prompt, Key} {
		if value, there := says[name]; there && err == nil && text(value) == "" {
			err = fmt.Errorf("_meta: %s is to be a text that is not empty", name)
		}
	}
	codex := says["x-codex-turn-metadata"]
	if inText := text(codex); inText != "" {
		codex = json.RawMessage(inText)
	}
	var turn map[string]json.RawMessage
	_ = json.Unmarshal(codex, &turn) // what is no object says nothing
	return Call{
		ToolUse:      first(says[ToolUse], says["claudecode/toolUseId"], says[Key], says["idempotency-key"], says["idempotency_key"]),
		Conversation: first(says[Conversation], turn["session_id"], turn["thread_id"], says["threadId"], says["vscode.conversationId"], says["ai.opencode/sessionID"]),
		Turn:         first(says[Turn], turn["turn_id"], says["vscode.requestId"]),
		Prompt:       first(says[Prompt]),
	}, err
}

// roundSum is how much of the hash of its state tells a round from others, in bytes.
const roundSum = 12

// Round is the call as one round of a request that takes several: each has its state, which
// the client sends back, and is a call of its own. The first round has no state.
func (c Call) Round(state json.RawMessage) Call {
	if len(state) == 0 || c.ToolUse == "" {
		return c
	}
	sum := sha256.Sum256(state)
	c.ToolUse += "#" + base64.RawURLEncoding.EncodeToString(sum[:roundSum])
	return c
}

// RequestOf is the id of the call whose further round an id is; empty of any other.
func RequestOf(id string) string {
	at := strings.LastIndexByte(id, '#')
	if at < 0 {
		return ""
	}
	if sum, err := base64.RawURLEncoding.DecodeString(id[at+1:]); err != nil || len(sum) != roundSum {
		return ""
	}
	return id[:at]
}

func first(values ...json.RawMessage) string {
	for _, value := range values {
		if t := text(value); t != "" {
			return t
		}
	}
	return ""
}

// text is a value that is a text; else empty.
func text(value json.RawMessage) (t string) {
	if json.Unmarshal(value, &t) != nil {
		return ""
	}
	return t
}
