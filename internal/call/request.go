package call

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Request is one call as a front hands it over.
type Request struct {
	// Key is its identity.
	Key    tool.CallID
	Prompt string
	// Nameless says why the call has no identity, Impossible why it cannot be
	// made though it has one; nil when nothing is wrong.
	Nameless, Impossible *tool.Error
	// Client is what the program calls itself that makes the call; a worker may serve it
	// alone. Empty where nobody says so.
	Client string
	// Message names the message of the model that the call stands in, if somebody says.
	Message string
	// Tool and Arguments are the model's; empty arguments mean {}. Arguments are
	// what was sent byte by byte, also where that is not UTF-8.
	Tool, Arguments string
	// Custom is the type of a call that is no function's, which its program runs.
	Custom  string
	Profile string
	// Offered are the profiles that the caller may choose from; nil is all.
	Offered []string
	// ValidateOnly: nothing is run.
	ValidateOnly bool
	// HoldOnly: it is only asked whether a person has to allow it first; nothing is run.
	HoldOnly bool
	// AllowDuplicateEffect: somebody has decided to have the effect once more.
	AllowDuplicateEffect bool
	// Timeout and MaxOutputChars may only shorten what the tool's policy says;
	// 0 does not.
	Timeout        time.Duration
	MaxOutputChars int
	// TokensUsed are the tokens that the loop has used in this prompt; 0 says
	// nothing.
	TokensUsed int64
	Labels     map[string]string
	// Round is what a front for MCP clients says beside the arguments; nil of any other.
	Round *backend.Round
	// Caller can be told and asked while the call runs; nil when nobody can.
	Caller backend.Caller
	// Bytes is the part of Parts.Bytes that the call takes room of; nil is the whole.
	Bytes *limit.Bytes
	// Load is what the request holds of it; nil for nothing.
	Load *limit.Load
}

// NewRequest is the request of a tenant as the contract has it; required are the
// ids that it must have, as in KeyOf.
func NewRequest(tenant string, req *sidecallv1.ExecuteToolRequest, required ...string) Request {
	key, nameless := KeyOf(tenant, req, required...)
	r := Request{
		Key:                  key,
		Nameless:             nameless,
		Impossible:           impossible(req),
		Prompt:               text(req.GetPromptId()),
		Message:              req.GetMessageId(),
		Tool:                 text(req.GetToolName()),
		Arguments:            req.GetArgumentsJson(),
		Profile:              text(req.GetProfile()),
		ValidateOnly:         req.GetValidateOnly(),
		HoldOnly:             req.GetHoldOnly(),
		AllowDuplicateEffect: req.GetAllowDuplicateEffect(),
		Timeout:              req.GetTimeout().AsDuration(),
		MaxOutputChars:       int(req.GetMaxOutputChars()),
		TokensUsed:           req.GetTokensUsed(),
		Labels:               req.GetLabels(),
	}
	if r.Impossible != nil { // perhaps for one of them
		r.Labels = texts(r.Labels)
	}
	return r
}

// runsNothing reports that the request only asks, and is no call of its prompt.
func (r *Request) runsNothing() bool { return r.ValidateOnly || r.HoldOnly }

// RoundOf is a round of a request of MCP as the contract has it; nil for nil.
func RoundOf(m *sidecallv1.McpRound) *backend.Round {
	if m == nil {
		return nil
	}
	return &backend.Round{Capabilities: []byte(m.GetCapabilitiesJson()), Responses: []byte(m.GetInputResponsesJson()), State: m.GetRequestState()}
}

// idempotencyKey derives the key that is forwarded to the upstream from the
// identity of the call, so that every attempt, in whatever process and after
// whatever crash, carries the same one.
func idempotencyKey(key tool.CallID) string {
	var buffer [256]byte
	b := buffer[:0]
	for _, part := range [...]string{key.Tenant, key.Conversation, key.Turn, key.ID} {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(b)
	return string(base64.RawURLEncoding.AppendEncode(buffer[:0], sum[:]))
}
