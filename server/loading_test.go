package server

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/limit"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// A hundred requests of 60 bytes each were a hundred pages of 4 MB, in memory several
// times.
func TestFewPagesAreReadAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newIntake(limit.NewBytes(64<<20), 1, 4<<20)
		load := &grpc.UnaryServerInfo{FullMethod: sidecallv1.ConversationService_LoadConversation_FullMethodName}
		var reading, all atomic.Int64
		end := make(chan struct{})
		var loads sync.WaitGroup
		for range 100 {
			loads.Go(func() {
				if _, err := in.fewLoads(t.Context(), nil, load, func(context.Context, any) (any, error) {
					reading.Add(1)
					defer reading.Add(-1)
					<-end
					all.Add(1)
					return nil, nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := reading.Load(); n != maxLoading {
			t.Errorf("%d are read at a time", n)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := in.fewLoads(gone, nil, load, nil); status.Code(err) != codes.Canceled {
			t.Errorf("one whose caller has left: %v", err)
		}
		other := &grpc.UnaryServerInfo{FullMethod: sidecallv1.ConversationService_AppendMessages_FullMethodName}
		if _, err := in.fewLoads(t.Context(), nil, other, func(context.Context, any) (any, error) { return nil, nil }); err != nil {
			t.Errorf("one that reads no page: %v", err)
		}
		close(end)
		loads.Wait()
		if n := all.Load(); n != 100 {
			t.Errorf("%d were read", n)
		}
		in.unread.held.Store(in.unread.most + 1)
		if _, err := in.fewLoads(t.Context(), nil, load, nil); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("while too much is unread: %v", err)
		}
	})
}
