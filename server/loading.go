package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// maxLoading bounds how many pages of conversations are read at a time, by all servers
// together: each is as long as a response may be, and sixty bytes ask for it.
const maxLoading = 4

// loading are the methods that read such pages.
var loading = map[string]bool{
	sidecallv1.ConversationService_LoadConversation_FullMethodName:   true,
	sidecallv1.ConversationService_ResumeConversation_FullMethodName: true,
}

// fewLoads lets few read pages at a time; others wait for them. While too much of what
// was read waits to be taken nothing more is.
func (in *intake) fewLoads(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if !loading[info.FullMethod] {
		return next(ctx, req)
	}
	leave, err := place(ctx, in.loads)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := in.unread.refuse(); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// place waits for one of places, which are few; nil is without a bound.
func place(ctx context.Context, places chan struct{}) (leave func(), err error) {
	if places == nil {
		return func() {}, nil
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}
