package server

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/call"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
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
	key, nameless := call.KeyOf(tenant(ctx), req)
	if nameless != nil {
		return key, invalid(nameless)
	}
	return key, nil
}

// invalid is the status of a request that only the program can correct.
func invalid(why *tool.Error) error {
	return status.Error(codes.InvalidArgument, fmt.Sprintf("%s: %s", why.Field, why.Constraint))
}
