package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// mute is the stream of a worker that says nothing, or what first holds.
type mute struct {
	WorkerStream

	ctx   context.Context //nolint:containedctx // the stream's
	first *sidecallv1.WorkerMessage
	ended chan struct{}
}

func (m mute) Context() context.Context { return m.ctx }

func (m mute) Recv() (*sidecallv1.WorkerMessage, error) {
	if m.first != nil {
		return m.first, nil
	}
	<-m.ended
	return nil, errors.New("it has ended")
}

// takes is a Workers that does what it says.
type takes func(tenant string, register *sidecallv1.WorkerRegister) error

func (t takes) Serve(tenant string, _ []string, register *sidecallv1.WorkerRegister, _ WorkerStream) error {
	return t(tenant, register)
}

func frontOf(workers Workers) *workerService {
	return &workerService{workers: workers, drain: NewDrain(), logger: slog.New(slog.DiscardHandler), registering: make(chan struct{}, maxRegistering)}
}

// Workers that connect and say nothing are sent away, and keep nobody else out.
func TestWorkersThatDoNotRegisterGiveTheirPlacesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		front := frontOf(takes(func(string, *sidecallv1.WorkerRegister) error { return nil }))
		stream := mute{ctx: t.Context(), ended: make(chan struct{})}
		defer close(stream.ended) // as gRPC does when the handler has returned
		var refused sync.WaitGroup
		for range 3 * maxRegistering {
			refused.Go(func() {
				if err := front.Serve(stream); status.Code(err) != codes.DeadlineExceeded {
					t.Errorf("%v", err)
				}
			})
		}
		refused.Wait()
		if len(front.registering) != 0 {
			t.Errorf("%d places are held by nobody", len(front.registering))
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range maxRegistering {
			front.registering <- struct{}{}
		}
		if err := front.Serve(mute{ctx: gone}); status.Code(err) != codes.Canceled {
			t.Errorf("one that has gone: %v", err)
		}
	})
}

// What a worker says first is who it is; a bug in what follows is not the process's
// end, and a sidecar that drains takes none.
func TestTheFirstMessageOfAWorker(t *testing.T) {
	heartbeat := &sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Heartbeat{Heartbeat: &sidecallv1.WorkerHeartbeat{}}}
	register := &sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Register{Register: &sidecallv1.WorkerRegister{Worker: "w"}}}
	front := frontOf(takes(func(_ string, r *sidecallv1.WorkerRegister) error {
		if r.GetWorker() == "w" {
			panic("a bug")
		}
		return nil
	}))
	for code, first := range map[codes.Code]*sidecallv1.WorkerMessage{codes.InvalidArgument: heartbeat, codes.Internal: register} {
		if err := front.Serve(mute{ctx: t.Context(), first: first}); status.Code(err) != code || strings.Contains(err.Error(), "a bug") {
			t.Errorf("%v: %v", first, err)
		}
	}
	front.drain.Start(t.Context())
	if err := front.Serve(mute{ctx: t.Context(), first: register}); status.Code(err) != codes.Unavailable {
		t.Errorf("while it drains: %v", err)
	}
}
