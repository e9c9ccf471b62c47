package server

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/call"
)

// statusOf is the status of a request about a call that cannot be done; nil of
// nil.
func statusOf(err error) error {
	fault, ok := errors.AsType[*call.Fault](err)
	switch {
	case err == nil:
		return nil
	case ok:
		return status.Error(codeOf(fault.Kind), fault.Message)
	default:
		return status.FromContextError(err).Err()
	}
}

func codeOf(kind call.FaultKind) codes.Code {
	switch kind {
	case call.Invalid:
		return codes.InvalidArgument
	case call.NotFound:
		return codes.NotFound
	case call.NotNow:
		return codes.FailedPrecondition
	case call.Changed:
		return codes.Aborted
	case call.StoreDown:
		return codes.Unavailable
	case call.Unreadable:
		return codes.DataLoss
	}
	return codes.Internal
}

// storeStatus is for the rpcs that are nothing but a look into the store.
func storeStatus(ctx context.Context) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.Unavailable, "the store is down; nothing was changed, send the request again later")
}
