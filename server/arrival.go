package server

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/sidecall/sidecall/limit"
)

const (
	// streamWeight is what gRPC holds for a stream on which nothing has been sent, in
	// bytes: it costs its sender fifteen.
	streamWeight = 8 << 10
	// headersWeight is how often the metadata of a stream is in memory.
	headersWeight = 4
	// leastArriving is for how many bytes of streams there always is room, so that a
	// small limits.max_held_bytes refuses no agent.
	leastArriving = 16 << 20
)

// arrival is a stream whose request is on the way. What it holds is counted until the
// request has come, and it has so long for that. The nil arrival is not bounded.
type arrival struct {
	load  limit.Load
	limit *time.Timer // ends the stream
}

type arrivalKey struct{}

// arrivalOf is the arrival of a stream.
func arrivalOf(ctx context.Context) *arrival {
	a, _ := ctx.Value(arrivalKey{}).(*arrival)
	return a
}

// begin lets a stream in before gRPC makes anything of it, whatever its service. It is
// called by what reads the connection, and waits for nothing.
func (in *intake) begin(ctx context.Context, info *tap.Info) (context.Context, error) {
	if in.bytes == nil {
		return ctx, nil
	}
	a := new(arrival)
	a.load.Of(in.arriving)
	if !a.load.Take(streamWeight + headersWeight*sizeOf(info.Header)) {
		return ctx, status.Error(codes.ResourceExhausted,
			"OVERLOADED: too many requests have begun and not arrived (half of limits.max_held_bytes); nothing was started, send it again later")
	}
	ctx, end := context.WithCancelCause(ctx)
	a.limit = time.AfterFunc(receivePatience, func() {
		end(errLate)
		a.load.Release()
	})
	return context.WithValue(ctx, arrivalKey{}, a), nil
}

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
		a.load.Release()
	}
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
