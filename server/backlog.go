package server

import (
	"runtime"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// smallResponse is what a response may have without being counted, in bytes.
const smallResponse = 64 << 10

// backlog counts the bytes of large responses that gRPC has and the agent has not
// taken yet: as long as it does not read them, they are in memory, and the calls
// that they answer have long ended. The nil backlog has no bound.
type backlog struct {
	most int64
	held atomic.Int64
}

// refuse refuses a request while too much is unread: its response might be one
// more.
func (b *backlog) refuse() error {
	if b == nil || b.held.Load() <= b.most {
		return nil
	}
	return status.Errorf(codes.ResourceExhausted,
		"OVERLOADED: responses of %d bytes wait to be read, and %d may (half of limits.max_held_bytes); nothing was started, read them, and send it again later", b.held.Load(), b.most)
}

// count returns an encoded response that is counted until gRPC has written it, or
// given it up.
func (b *backlog) count(encoded mem.BufferSlice) mem.BufferSlice {
	if b == nil || encoded.Len() <= smallResponse {
		return encoded
	}
	data := encoded.Materialize()
	encoded.Free()
	s := &share{of: b, bytes: int64(len(data))}
	b.held.Add(s.bytes)
	o := &owner{s}
	// A connection that breaks leaves behind what waits for its streams, and gRPC
	// frees none of that.
	runtime.AddCleanup(o, (*share).giveBack, s)
	return mem.BufferSlice{mem.NewBuffer(&data, o)}
}

// share is what one response holds.
type share struct {
	of    *backlog
	bytes int64
	given atomic.Bool
}

func (s *share) giveBack() {
	if s.given.CompareAndSwap(false, true) {
		s.of.held.Add(-s.bytes)
	}
}

// owner is told by gRPC when a response is no longer needed.
type owner struct{ share *share }

// Get is never asked for: nobody takes a buffer from here.
func (*owner) Get(length int) *[]byte { data := make([]byte, length); return &data }

// Put implements mem.BufferPool.
func (o *owner) Put(*[]byte) { o.share.giveBack() }
