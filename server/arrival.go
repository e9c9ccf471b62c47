package server

import (
	"container/list"
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

const (
	// streamWeight is what gRPC holds for a stream on which nothing has been sent, in
	// bytes: it costs its sender fifteen.
	streamWeight = 8 << 10
	// headersWeight is how often the metadata of a stream is in memory.
	headersWeight = 4
	// leastArriving is for how many bytes of streams there always is room.
	leastArriving = 16 << 20
)

// arrivals are the streams whose requests are on the way, whatever their service, the
// longest first. What they hold has a bound: beyond it those give way that have kept
// the sidecar waiting longest, since a request comes right behind its stream.
type arrivals struct {
	most int64 // bytes; 0 is without a bound

	mu   sync.Mutex
	held int64
	all  list.List // of *arrival
}

// receivePatience is how long a request may take to arrive, a large one from when
// it is let in: agents are on the same machine, and others wait for its place.
const receivePatience = 10 * time.Second

// arrival is a stream whose request is on the way. What it holds is counted until the
// request has come, and it has so long for that. The nil arrival is not bounded.
type arrival struct {
	of    *arrivals
	bytes int64
	at    *list.Element // nil when it is over
	limit *time.Timer   // ends the stream
	stop  context.CancelCauseFunc
}

type arrivalKey struct{}

// arrivalOf is the arrival of a stream.
func arrivalOf(ctx context.Context) *arrival {
	a, _ := ctx.Value(arrivalKey{}).(*arrival)
	return a
}

// begin lets a stream in before gRPC makes anything of it. It is called by what reads
// the connection, and waits for nothing.
func (s *arrivals) begin(ctx context.Context, info *tap.Info) (context.Context, error) {
	ctx, stop := context.WithCancelCause(ctx)
	a := &arrival{of: s, bytes: streamWeight + headersWeight*sizeOf(info.Header), stop: stop}
	a.limit = time.AfterFunc(receivePatience, func() {
		stop(errLate)
		a.leave()
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	a.at = s.all.PushBack(a)
	for s.held += a.bytes; s.most > 0 && s.held > s.most && s.all.Front() != a.at; {
		oldest := s.all.Front().Value.(*arrival)
		oldest.stop(errCrowded)
		oldest.remove()
	}
	return context.WithValue(ctx, arrivalKey{}, a), nil
}

// remove is end for whoever holds the lock.
func (a *arrival) remove() {
	if a.at != nil {
		a.of.all.Remove(a.at)
		a.of.held -= a.bytes
		a.at = nil
	}
}

// errCrowded is why a stream has ended that had to give way.
var errCrowded = status.Error(codes.ResourceExhausted,
	"OVERLOADED: too many requests have begun and not arrived (half of limits.max_held_bytes), and this one for the longest time; nothing was started, send it again later")

// errLate is why a stream has ended that kept the sidecar waiting.
var errLate = status.Errorf(codes.DeadlineExceeded,
	"a request did not arrive, or a response was not read, within %s; nothing was started by what did not arrive", receivePatience)

// wait gives the stream its time anew.
func (a *arrival) wait() {
	if a != nil {
		a.limit.Reset(receivePatience)
	}
}

// rest stops the time: it is not the stream that is waited for.
func (a *arrival) rest() {
	if a != nil {
		a.limit.Stop()
	}
}

// end gives back what the stream held on its way.
func (a *arrival) end() {
	if a != nil {
		a.rest()
		a.leave()
	}
}

// admitted is what is said of a stream whose request has room of its own from now on: it
// gives way to nobody, and has its time.
func (a *arrival) admitted() {
	if a != nil {
		a.leave()
	}
}

func (a *arrival) leave() {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.remove()
}

// sizeOf is the size of metadata as HTTP counts it (RFC 9113, 6.5.2).
func sizeOf(headers metadata.MD) (size int64) {
	for name, values := range headers {
		for _, value := range values {
			size += int64(len(name) + len(value) + 32)
		}
	}
	return size
}
