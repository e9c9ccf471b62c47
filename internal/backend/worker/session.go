package worker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Stream is the connection to one worker. Recv and Send are called by one goroutine
// each; both return when the context has ended, at the latest when Serve has.
type Stream interface {
	Context() context.Context
	Recv() (*sidecallv1.WorkerMessage, error)
	Send(*sidecallv1.WorkerCommand) error
}

// maxTold bounds the lines in the log about what one worker sends in vain.
const maxTold = 20

// session is a worker that has registered. What stands below mu is guarded by the
// mutex of its backend.
type session struct {
	backend *Backend
	stream  Stream
	log     *slog.Logger

	tenant, name string
	// client is whose calls alone it takes; empty for everybody's.
	client    string
	tools     map[string]*declared
	most      int // calls at a time
	heartbeat time.Duration

	// heard counts the messages that came. sends counts those that have ended, and is odd
	// while one is under way.
	heard atomic.Uint64
	sends atomic.Uint64

	// below mu

	busy map[string]*invocation // by id; each has a place
	last uint64                 // turn in which it was given a call last
	// leaving: it takes no more calls. parted: it was told Goodbye, and takes calls until
	// the one is there that it opens in its place.
	leaving, parted bool
	// out is what is to be said. It has at most an Invoke and a Cancel for each place,
	// and two more.
	out   []outgoing
	toSay chan struct{} // has room for one: something is in out
	// ended is closed when the session is over, and why says so; nil is how it should
	// end.
	ended chan struct{}
	why   error
	told  int
	// written is closed when nothing more is sent.
	written chan struct{}
}

// outgoing is what is to be said to a worker: a command, or a call, of which is
// decided when it is its turn.
type outgoing struct {
	command *sidecallv1.WorkerCommand
	invoke  *invocation
}

// takes reports whether the worker is given a call. One of the tenant without a name, who
// may have every profile, serves all tenants; any other serves its own. A tool is its
// declaration: what was checked by another one is the call of another tool.
func (s *session) takes(call *backend.Invocation) bool {
	d := s.tools[call.Target]
	checked, _ := call.Declaration.(*declared)
	return !s.leaving && (s.tenant == "" || s.tenant == call.Tenant) && (s.client == "" || s.client == call.Client) &&
		d != nil && checked != nil && (d == checked || d.differs(checked) == "")
}

func (s *session) free() bool { return !s.leaving && len(s.busy) < s.most }

// stays reports whether it is one that counts: not on its way out.
func (s *session) stays() bool { return !s.leaving && !s.parted }

// part tells a worker Goodbye, once.
func (s *session) part() {
	if !s.parted {
		s.parted = true
		s.say(goodbye())
	}
}

func (s *session) say(o outgoing) {
	s.out = append(s.out, o)
	select {
	case s.toSay <- struct{}{}:
	default: // it will be seen
	}
}

// unsay takes back a call that was not sent.
func (s *session) unsay(inv *invocation) {
	s.out = slices.DeleteFunc(s.out, func(o outgoing) bool { return o.invoke == inv })
}

// over ends the session. Only the first reason counts.
func (s *session) over(why error) {
	select {
	case <-s.ended:
	default:
		s.leaving, s.why = true, why
		close(s.ended)
	}
}

func (s *session) stop(why error) {
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	s.over(why)
}

// serve keeps a session until it is over, and returns why it is. Its
// reader and writer end with the stream, which ends when its handler returns.
func (s *session) serve() error {
	s.backend.running.Go(s.guarded(s.read))
	s.backend.running.Go(s.guarded(s.write))
	s.watch()
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	return s.why
}

// guarded keeps a bug that a worker sets off from ending the process.
func (s *session) guarded(run func()) func() {
	return func() {
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("panic", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				s.stop(status.Error(codes.Internal, "the sidecar failed on this stream; the operator finds it in the log"))
			}
		}()
		run()
	}
}

// watch waits for the end of a session, and ends it when the worker says nothing, or
// takes nothing, for too long. It counts looks and no time: a process that was stopped
// for a while looks once when it goes on, and what has come meanwhile is read before
// the next look.
func (s *session) watch() {
	look := time.NewTicker(s.heartbeat)
	defer look.Stop()
	silent, stuck, heard, sends := 0, 0, uint64(0), uint64(0)
	for {
		select {
		case <-s.ended:
			return
		case <-s.backend.ending.Done():
			s.stop(nil)
		case <-s.stream.Context().Done():
			s.stop(status.FromContextError(s.stream.Context().Err()).Err())
		case <-look.C:
			silent, stuck = silent+1, stuck+1
			if now := s.heard.Load(); now != heard {
				silent, heard = 0, now
			}
			if now := s.sends.Load(); now%2 == 0 || now != sends {
				stuck, sends = 0, now
			}
			if max(silent, stuck) >= missedHeartbeats {
				s.stop(s.dead())
			}
		}
	}
}

// farewell waits until all is sent that was said before a session ended well: whoever was
// to be told Goodbye has been when its stream ends. A worker that takes nothing is waited
// for as long as one that goes on.
func (s *session) farewell() error {
	patience := time.NewTimer(missedHeartbeats * s.heartbeat)
	defer patience.Stop()
	select {
	case <-s.written:
		return nil
	case <-s.stream.Context().Done():
		return status.FromContextError(s.stream.Context().Err()).Err()
	case <-patience.C:
		return s.dead()
	}
}

// dead is why a stream ends whose worker says nothing, or takes nothing.
func (s *session) dead() error {
	return status.Errorf(codes.DeadlineExceeded, "the worker was silent, or took nothing, for %d intervals of %s: it is taken for dead, and may register again",
		missedHeartbeats, s.heartbeat)
}

// looks is how often in a heartbeat a session is looked at that stands in the way.
const looks = 4

// proven waits until the session has ended, or is proven to live: something came from
// its worker that was not under way when the waiting began. It reports whether it lives.
func (s *session) proven(ctx context.Context) (lives bool, err error) {
	look := time.NewTicker(s.heartbeat / looks)
	defer look.Stop()
	for began, heard := false, uint64(0); ; began = true {
		select {
		case <-s.ended:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		case <-s.backend.ending.Done():
			return false, errParting
		case <-look.C:
		}
		now := s.heard.Load()
		if began && now != heard {
			return true, nil
		}
		heard = now
	}
}

// read takes what the worker says.
func (s *session) read() {
	for {
		message, err := s.stream.Recv()
		if err == nil {
			s.heard.Add(1)
			err = s.take(message)
		}
		switch {
		case err == io.EOF: //nolint:errorlint // a stream returns exactly this
			s.stop(nil) // it has nothing more to say, results neither
			return
		case err != nil:
			s.stop(err)
			return
		}
	}
}

// take takes one message. Its errors end the stream.
func (s *session) take(message *sidecallv1.WorkerMessage) error {
	switch m := message.GetMessage().(type) {
	case *sidecallv1.WorkerMessage_Heartbeat:
		return nil
	case *sidecallv1.WorkerMessage_Progress:
		s.progress(m.Progress)
		return nil
	case *sidecallv1.WorkerMessage_Result:
		s.result(m.Result)
		return nil
	case *sidecallv1.WorkerMessage_Leave:
		s.leave()
		return nil
	case *sidecallv1.WorkerMessage_Register:
		return status.Error(codes.InvalidArgument, "register: the worker has registered already: other tools need another stream")
	default:
		return status.Error(codes.InvalidArgument, "a message without content, or of a kind that is not known here")
	}
}

// progress passes a sign of life of a call on.
func (s *session) progress(p *sidecallv1.WorkerProgress) {
	s.backend.mu.Lock()
	inv := s.busy[p.GetInvocationId()]
	var tell func(backend.Sign)
	if inv != nil && inv.state == sent {
		tell = inv.call.Progress
	}
	s.backend.mu.Unlock()
	if tell != nil {
		tell(backend.Sign{Note: p.GetNote()})
	}
}

// result ends a call. One for which nobody waits any more frees its place, and that is
// all.
func (s *session) result(r *sidecallv1.WorkerResult) {
	b := s.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	inv := s.busy[r.GetInvocationId()]
	if inv == nil || inv.state != sent { // one that nobody has sent is no result
		s.inVain("a result of a call that the worker does not have", tool.Shorten(r.GetInvocationId(), 64))
		return
	}
	if inv.alone {
		inv.state = over
		s.inVain("a result came late and goes nowhere", inv.call.Tool)
	} else {
		inv.end(outcome{result: r})
	}
	b.roster.release(inv)
}

func (s *session) inVain(what, of string) {
	s.backend.late.Add(1)
	if s.told++; s.told <= maxTold {
		s.log.Info(what, "of", of) // as after every cancel of a call that nobody waits for
	}
}

// leave lets the worker finish what it has.
func (s *session) leave() {
	b := s.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roster.dismiss(s)
}
