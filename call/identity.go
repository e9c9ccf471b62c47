package call

import (
	"fmt"
	"slices"

	"github.com/sidecall/sidecall/call/explain"
	"github.com/sidecall/sidecall/dedupe"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/tool"
)

// Bounds on what a program says of a call. They bound what a request can make
// the store and the log hold.
const (
	maxIDBytes    = 256
	maxLabels     = 16
	maxLabelBytes = 256
)

// identified is what every request about one call holds.
type identified interface {
	GetConversationId() string
	GetTurnId() string
	GetToolUseId() string
}

// KeyOf returns the identity of the call that a request is about; why not, when
// it can be none. required are the ids beside tool_use_id that it must have, by
// their names in the contract. What is said first does not depend on chance.
func KeyOf(tenant string, req identified, required ...string) (dedupe.Key, *tool.Error) {
	key := dedupe.Key{Tenant: tenant, Conversation: req.GetConversationId(), Turn: req.GetTurnId(), ID: req.GetToolUseId()}
	ids := [...]struct{ name, value string }{
		{"tool_use_id", key.ID}, {"conversation_id", key.Conversation}, {"turn_id", key.Turn}, {"prompt_id", promptOf(req)},
	}
	for i, id := range ids {
		if id.value == "" && (i == 0 || slices.Contains(required, id.name)) {
			why := explain.NoID(id.name)
			return key, &why
		}
	}
	for _, id := range ids {
		if len(id.value) > maxIDBytes {
			why := explain.TooLong(id.name, id.value, maxIDBytes)
			return key, &why
		}
	}
	return key, nil
}

func promptOf(req identified) string {
	if call, ok := req.(interface{ GetPromptId() string }); ok {
		return call.GetPromptId()
	}
	return ""
}

// impossible says what is wrong with what a program says of a call, beside its
// identity; nil when nothing is.
func impossible(req *sidecallv1.ExecuteToolRequest) *tool.Error {
	var why tool.Error
	switch timeout := req.GetTimeout(); {
	case len(req.GetLabels()) > maxLabels:
		why = explain.TooManyLabels(len(req.GetLabels()), maxLabels)
	case req.GetMaxOutputChars() < 0:
		why = explain.Negative("max_output_chars", fmt.Sprint(req.GetMaxOutputChars()))
	case timeout != nil && (timeout.CheckValid() != nil || timeout.AsDuration() < 0):
		why = explain.Negative("timeout", fmt.Sprintf("%d s %d ns", timeout.GetSeconds(), timeout.GetNanos()))
	default:
		return longLabel(req.GetLabels())
	}
	return &why
}

func longLabel(labels map[string]string) *tool.Error {
	for key, value := range labels { // whichever is too long, the answer is the same but for what is quoted
		for _, text := range [...]string{key, value} {
			if len(text) > maxLabelBytes {
				why := explain.TooLong("labels", text, maxLabelBytes)
				return &why
			}
		}
	}
	return nil
}
