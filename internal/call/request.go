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
	tool.Use
	Flaws
	Sender
	Choice
	Mode
	Bounds
	Memory

	Prompt string
	// TokensUsed are the tokens that the loop has used in this prompt; 0 says
	// nothing.
	TokensUsed int64
	Labels     map[string]string
}

// Flaws are why a request cannot be served: Nameless why the call has no identity, Impossible
// why it cannot be made though it has one; nil when nothing is wrong.
type Flaws struct{ Nameless, Impossible *tool.Error }

// Sender is the program that makes a call.
type Sender struct {
	// Client is what it calls itself; a worker may serve it alone. Empty where nobody says so.
	Client string
	// Round is what a front for MCP clients says beside the arguments; nil of any other.
	Round *backend.Round
	// Caller can be told and asked while the call runs; nil when nobody can.
	Caller backend.Caller
}

// Choice is the profile that a program names.
type Choice struct {
	Profile string
	// Offered are the profiles that it may choose from; nil is all.
	Offered []string
}

// Mode is what is to be done with a call.
type Mode struct {
	// ValidateOnly: nothing is run.
	ValidateOnly bool
	// HoldOnly: it is only asked whether a person has to allow it first; nothing is run.
	HoldOnly bool
	// AllowDuplicateEffect: somebody has decided to have the effect once more.
	AllowDuplicateEffect bool
}

// Bounds may only shorten what the tool's policy says; 0 does not.
type Bounds struct {
	Timeout        time.Duration
	MaxOutputChars int
}

// Memory is where a call takes room.
type Memory struct {
	// Bytes is the part of Limits.Bytes that it takes room of; nil is the whole.
	Bytes *limit.Bytes
	// Load is what the request holds of it; nil for nothing.
	Load *limit.Load
}

// NewRequest is the request of a tenant as the contract has it; required are the
// ids that it must have, as in KeyOf.
func NewRequest(tenant string, req *sidecallv1.ExecuteToolRequest, required ...string) Request {
	key, nameless := KeyOf(tenant, req, required...)
	r := Request{
		Use: tool.Use{
			Key: key, Message: req.GetMessageId(), Tool: text(req.GetToolName()), Arguments: req.GetArgumentsJson(),
		},
		Flaws:      Flaws{Nameless: nameless, Impossible: impossible(req)},
		Choice:     Choice{Profile: text(req.GetProfile())},
		Prompt:     text(req.GetPromptId()),
		TokensUsed: req.GetTokensUsed(),
		Labels:     req.GetLabels(),
		Mode: Mode{
			ValidateOnly: req.GetValidateOnly(), HoldOnly: req.GetHoldOnly(), AllowDuplicateEffect: req.GetAllowDuplicateEffect(),
		},
		Bounds: Bounds{Timeout: req.GetTimeout().AsDuration(), MaxOutputChars: int(req.GetMaxOutputChars())},
	}
	if r.Impossible != nil { // perhaps for one of them
		r.Labels = texts(r.Labels)
	}
	return r
}

// runsNothing reports that it is only asked, and the call is none of its prompt.
func (m Mode) runsNothing() bool { return m.ValidateOnly || m.HoldOnly }

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
