package call

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
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
// their names in the contract. What is said first does not depend on chance. A key
// of which no record can be may not be what was sent: it is what can be said of it.
func KeyOf(tenant string, req identified, required ...string) (tool.CallID, *tool.Error) {
	key := tool.CallID{Tenant: tenant, Conversation: req.GetConversationId(), Turn: req.GetTurnId(), ID: req.GetToolUseId()}
	nameless := wrongID([...]id{
		{"tool_use_id", key.ID}, {"conversation_id", key.Conversation}, {"turn_id", key.Turn}, {"prompt_id", promptOf(req)},
	}, required)
	if nameless != nil {
		key.Conversation, key.Turn, key.ID = text(key.Conversation), text(key.Turn), text(key.ID)
	}
	return key, nameless
}

type id struct{ name, value string }

// wrongID says why a call with these ids has no identity; nil when it has one.
func wrongID(ids [4]id, required []string) *tool.Error {
	for i, id := range ids {
		if id.value == "" && (i == 0 || slices.Contains(required, id.name)) {
			why := explain.NoID(id.name)
			return &why
		}
	}
	for _, id := range ids {
		if why := unfit(id); why != nil {
			return why
		}
	}
	return nil
}

// unfit says why a text can be no id; nil when it can.
func unfit(id id) *tool.Error {
	if len(id.value) > maxIDBytes {
		why := explain.TooLong(id.name, id.value, maxIDBytes)
		return &why
	}
	if !utf8.ValidString(id.value) { // two that differ would be one when they are written down
		why := explain.NotUTF8(id.name, id.value)
		return &why
	}
	return nil
}

// text is a text of a request as it can be logged and answered: a front may hand
// over bytes that are not UTF-8.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// texts are labels likewise.
func texts(labels map[string]string) map[string]string {
	valid := make(map[string]string, len(labels))
	for key, value := range labels {
		valid[text(key)] = text(value)
	}
	return valid
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
	switch timeout := req.GetTimeout(); {
	case len(req.GetLabels()) > maxLabels:
		return new(explain.TooManyLabels(len(req.GetLabels()), maxLabels))
	case req.GetMaxOutputChars() < 0:
		return new(explain.Negative("max_output_chars", fmt.Sprint(req.GetMaxOutputChars())))
	case req.GetTokensUsed() < 0:
		return new(explain.Negative("tokens_used", fmt.Sprint(req.GetTokensUsed())))
	case timeout != nil && (timeout.CheckValid() != nil || timeout.AsDuration() < 0):
		return new(explain.Negative("timeout", fmt.Sprintf("%d s %d ns", timeout.GetSeconds(), timeout.GetNanos())))
	case len(req.GetLabels()) > 0: // most have none
		return wrongLabel(req.GetLabels())
	}
	return nil
}

func wrongLabel(labels map[string]string) *tool.Error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		for _, text := range [...]string{key, labels[key]} {
			if len(text) > maxLabelBytes {
				return new(explain.TooLong("labels", text, maxLabelBytes))
			}
			if !utf8.ValidString(text) {
				return new(explain.NotUTF8("labels", text))
			}
		}
	}
	return nil
}
