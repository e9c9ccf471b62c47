package server

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// stream runs a call, tells its caller of it, and sends the result last.
func (s *Service) stream(ctx context.Context, req *sidecallv1.ExecuteToolStreamRequest, stream grpc.ServerStream) error {
	lease := s.Executor.Catalog.Lease()
	defer lease.Release()
	request, err := s.single(ctx, lease.Snapshot, req.GetCall())
	if err != nil {
		return err
	}
	request.Round = call.RoundOf(req.GetMcp())
	l := newListener(s.asked, req.GetAnswers(), ctx.Done())
	var sent sync.WaitGroup
	sent.Go(func() {
		for {
			event, ok := l.next()
			if !ok || stream.SendMsg(event) != nil {
				return // who has left hears nothing
			}
		}
	})
	request.Caller = l
	res := s.Executor.Execute(ctx, lease, request)
	l.close()
	sent.Wait()
	return stream.SendMsg(&sidecallv1.ExecuteToolStreamResponse{Event: &sidecallv1.ExecuteToolStreamResponse_Result{Result: res}})
}

// maxEvents is how many events wait for a caller that reads slowly; maxEventBytes bounds one, and
// all of them.
const (
	maxEvents     = 64
	maxEventBytes = 256 << 10
)

// listener is the caller of a call that runs.
type listener struct {
	asked   *questionsAsked
	answers bool
	left    <-chan struct{} // closed when the caller has gone

	mu      sync.Mutex
	more    *sync.Cond
	over    bool
	waiting []*sidecallv1.ExecuteToolStreamResponse
	bytes   int
}

func newListener(asked *questionsAsked, answers bool, left <-chan struct{}) *listener {
	l := &listener{asked: asked, answers: answers, left: left}
	l.more = sync.NewCond(&l.mu)
	return l
}

// tell has an event wait to be sent; false when the call is over. Where there is too much the
// earliest gives way.
func (l *listener) tell(event *sidecallv1.ExecuteToolStreamResponse) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.waiting, l.bytes = append(l.waiting, event), l.bytes+proto.Size(event)
	for len(l.waiting) > 1 && (len(l.waiting) > maxEvents || l.bytes > maxEventBytes) {
		l.asked.refuse(l.first().GetMcp().GetQuestionId(), errors.New("the caller does not read what it is asked"))
	}
	l.more.Signal()
	return true
}

// first takes the earliest event off, for whoever holds the lock.
func (l *listener) first() (event *sidecallv1.ExecuteToolStreamResponse) {
	event, l.waiting[0] = l.waiting[0], nil
	l.waiting, l.bytes = l.waiting[1:], l.bytes-proto.Size(event)
	return event
}

// next waits for the next event; false when there are no more.
func (l *listener) next() (*sidecallv1.ExecuteToolStreamResponse, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) == 0 {
		if l.over {
			return nil, false
		}
		l.more.Wait()
	}
	return l.first(), true
}

// close says that there are no more events.
func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.more.Signal()
}

// maxNote bounds what is told of how far a call has come, in bytes.
const maxNote = 4 << 10

// Progressed implements backend.Caller.
func (l *listener) Progressed(sign backend.Sign) {
	l.tell(&sidecallv1.ExecuteToolStreamResponse{Event: &sidecallv1.ExecuteToolStreamResponse_Progress{
		Progress: &sidecallv1.CallProgress{Note: tool.ShortenBytes(carried(sign.Note), maxNote), Progress: sign.Done, Total: sign.Total},
	}})
}

func message(method string, params json.RawMessage, question string) *sidecallv1.ExecuteToolStreamResponse {
	return &sidecallv1.ExecuteToolStreamResponse{Event: &sidecallv1.ExecuteToolStreamResponse_Mcp{
		Mcp: &sidecallv1.McpMessage{Method: method, ParamsJson: carried(string(params)), QuestionId: question},
	}}
}

// Said implements backend.Caller.
func (l *listener) Said(method string, params json.RawMessage) {
	if len(params) <= maxEventBytes {
		l.tell(message(method, params, ""))
	}
}

// Asked implements backend.Caller.
func (l *listener) Asked(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	switch {
	case !l.answers:
		return nil, errors.New("the caller of the tool cannot be asked")
	case len(params) > maxEventBytes:
		return nil, errors.New("the question is too large to be handed on")
	}
	id, answer, forget := l.asked.open()
	defer forget()
	if !l.tell(message(method, params, id)) {
		return nil, errors.New("the call has ended")
	}
	select {
	case said := <-answer:
		return said.result, said.err
	case <-l.left:
		return nil, errors.New("the caller of the tool has left")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
