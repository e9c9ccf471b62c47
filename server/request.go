package server

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/dedupe"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Limits on what identifies a call. They bound what a request can make the
// store and the log hold.
const (
	maxIDBytes    = 256
	maxLabels     = 16
	maxLabelBytes = 256
)

// tenant is the identity that records belong to. Listeners that do not
// authenticate serve one tenant.
func tenant(context.Context) string { return "" }

// identified is what every request about one call holds.
type identified interface {
	GetConversationId() string
	GetTurnId() string
	GetToolUseId() string
}

// keyOf returns the identity of the call that a request is about; an error when
// it can be none.
func keyOf(ctx context.Context, req identified) (dedupe.Key, error) {
	key := dedupe.Key{
		Tenant: tenant(ctx), Conversation: req.GetConversationId(), Turn: req.GetTurnId(), ID: req.GetToolUseId(),
	}
	if key.ID == "" {
		return key, status.Error(codes.InvalidArgument, "tool_use_id: is required: send the id that the provider gave the call")
	}
	return key, checkIDs(req)
}

// checkIDs refuses the first id that is too long, always in the same order.
func checkIDs(req identified) error {
	for _, id := range [...]struct{ name, value string }{
		{"tool_use_id", req.GetToolUseId()}, {"conversation_id", req.GetConversationId()}, {"turn_id", req.GetTurnId()},
	} {
		if err := checkID(id.name, id.value); err != nil {
			return err
		}
	}
	return nil
}

func checkID(name, id string) error {
	if len(id) > maxIDBytes {
		return status.Errorf(codes.InvalidArgument, "%s: %d bytes, at most %d are taken", name, len(id), maxIDBytes)
	}
	return nil
}

// checkRequest refuses what only the program can correct.
func checkRequest(req *sidecallv1.ExecuteToolRequest) error {
	if _, err := keyOf(context.Background(), req); err != nil {
		return err
	}
	if err := checkID("prompt_id", req.GetPromptId()); err != nil {
		return err
	}
	switch {
	case req.GetToolName() == "":
		return status.Error(codes.InvalidArgument, "tool_name: is required: send the name that the model called")
	case len(req.GetLabels()) > maxLabels:
		return status.Errorf(codes.InvalidArgument, "labels: %d labels, at most %d are taken", len(req.GetLabels()), maxLabels)
	case req.GetMaxOutputChars() < 0:
		return status.Error(codes.InvalidArgument, "max_output_chars: must not be negative")
	case req.GetTimeout() != nil && (req.GetTimeout().CheckValid() != nil || req.GetTimeout().AsDuration() < 0):
		return status.Error(codes.InvalidArgument, "timeout: must be a duration that is not negative")
	}
	for k, v := range req.GetLabels() { // whichever is too long, the answer is the same
		if len(k) > maxLabelBytes || len(v) > maxLabelBytes {
			return status.Errorf(codes.InvalidArgument, "labels: a label has more than %d bytes", maxLabelBytes)
		}
	}
	return nil
}
