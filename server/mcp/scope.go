package mcp

import (
	"crypto/rand"
	"encoding/json"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/identity"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// named is the identity of a request, within a scope.
type named struct {
	identity.Call

	// made: the request has no id, so this one was made for it. Sent again it is another call.
	made bool
}

const (
	// conversationHeader names the conversation of a request where _meta does not.
	conversationHeader = "Sidecall-Conversation-Id"
	// claudeCode has ids of its provider. Two calls never have the same one, whatever conversation
	// they are of, where that is the provider whose ids begin so; nor have two that another
	// sidecar makes.
	claudeCode = "claudecode/toolUseId"
	everywhere = "toolu_"
	// world is the conversation of calls whose ids are nobody else's.
	world = "mcp"
)

// name finds out which call a request is. scope is what bounds the conversation of one that
// names none; empty where there is nothing.
func name(meta sdk.Meta, scope string) (named, error) {
	encoded, err := json.Marshal(meta)
	if err != nil {
		return named{}, err
	}
	said, err := identity.Of(encoded)
	if err != nil {
		return named{}, err
	}
	n := named{Call: said, made: said.ToolUse == ""}
	if n.made {
		n.ToolUse = "made_" + rand.Text()
	}
	switch {
	case n.Conversation != "":
	case meta[claudeCode] == n.ToolUse && strings.HasPrefix(n.ToolUse, everywhere), meta[identity.Key] == n.ToolUse:
		n.Conversation = world // whatever session it is sent in the next time
	case n.made && scope == "":
		n.Conversation = alone(n.ToolUse)
	default:
		n.Conversation = scope
	}
	return n, nil
}

// alone is the conversation of a call that is known by nothing but the id that was made for it:
// nobody else's calls are counted with it.
func alone(id string) string { return world + "/" + id }

// again makes it the call of an id that was made for an earlier round of the request.
func (n *named) again(id string) {
	if n.Conversation == alone(n.ToolUse) {
		n.Conversation = alone(id)
	}
	n.ToolUse = id
}

// unnamed has the log say, once, that calls with an effect come without an id.
func (f *face) unnamed(tool string) {
	f.mu.Lock()
	effect := f.listed[tool].GetEffect()
	f.mu.Unlock()
	if effect == sidecallv1.Effect_EFFECT_UNSPECIFIED || effect == sidecallv1.Effect_EFFECT_READ_ONLY {
		return
	}
	f.nameless.Do(func() {
		f.options.Log.Warn("mcp: a client says no id of a call that has an effect (_meta, see docs/mcp.md): sent again it is another call",
			"tool", tool, "profile", f.profile)
	})
}
