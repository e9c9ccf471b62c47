package worker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// rig is a backend that runs, and what it has told.
type rig struct {
	*Backend
	t *testing.T

	mu    sync.Mutex
	lists [][]tool.Discovered
	downs []error
}

// start runs a backend, in a bubble, to the end of the test.
func start(t *testing.T, cfg Config, examine Examiner) *rig {
	t.Helper()
	cfg.Name = "local"
	r := &rig{Backend: New(cfg), t: t}
	r.Examine(examine)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx, func(tools []tool.Discovered, err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if err != nil {
				r.downs = append(r.downs, err)
				return
			}
			r.lists = append(r.lists, tools)
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// peer is the other end of a stream: a worker, as far as its stream is concerned.
type peer struct {
	t      *testing.T
	ctx    context.Context
	cancel context.CancelFunc
	up     chan *sidecallv1.WorkerMessage
	down   chan *sidecallv1.WorkerCommand
	closed chan struct{} // the worker says nothing more
	served chan error
}

func (p *peer) Context() context.Context { return p.ctx }

func (p *peer) Recv() (*sidecallv1.WorkerMessage, error) {
	select {
	case m := <-p.up:
		return m, nil
	case <-p.closed:
		return nil, io.EOF
	case <-p.ctx.Done():
		return nil, status.FromContextError(p.ctx.Err()).Err()
	}
}

func (p *peer) Send(c *sidecallv1.WorkerCommand) error {
	select {
	case p.down <- c:
		return nil
	case <-p.ctx.Done():
		return status.FromContextError(p.ctx.Err()).Err()
	}
}

// join opens a stream with a registration.
func (r *rig) join(register *sidecallv1.WorkerRegister) *peer { return r.joinAs("", register) }

func (r *rig) joinAs(tenant string, register *sidecallv1.WorkerRegister) *peer {
	p := &peer{t: r.t, up: make(chan *sidecallv1.WorkerMessage), down: make(chan *sidecallv1.WorkerCommand), closed: make(chan struct{}), served: make(chan error, 1)}
	p.ctx, p.cancel = context.WithCancel(r.t.Context())
	go func() {
		err := r.Serve(tenant, register, p)
		p.cancel() // as gRPC does when a handler returns
		p.served <- err
	}()
	return p
}

// hire is join of a worker that is taken in.
func (r *rig) hire(register *sidecallv1.WorkerRegister) *peer {
	r.t.Helper()
	p := r.join(register)
	if p.next().GetRegistered() == nil {
		r.t.Fatal("it is not registered")
	}
	return p
}

// next is the next command.
func (p *peer) next() *sidecallv1.WorkerCommand {
	p.t.Helper()
	select {
	case c := <-p.down:
		return c
	case err := <-p.served:
		p.t.Fatalf("the stream has ended: %v", err)
	}
	return nil
}

// invoked is the next call.
func (p *peer) invoked() *sidecallv1.WorkerInvoke {
	p.t.Helper()
	c := p.next()
	if c.GetInvoke() == nil {
		p.t.Fatalf("got %v, not a call", c)
	}
	return c.GetInvoke()
}

// idle reports that there is nothing to take.
func (p *peer) idle() bool {
	synctest.Wait()
	select {
	case c := <-p.down:
		p.t.Logf("there is %v", c)
		return false
	default:
		return true
	}
}

func (p *peer) say(m *sidecallv1.WorkerMessage) {
	select {
	case p.up <- m:
	case <-p.ctx.Done():
	}
}

func (p *peer) answer(id, content string) {
	p.result(&sidecallv1.WorkerResult{InvocationId: id, Content: content})
}

func (p *peer) result(r *sidecallv1.WorkerResult) {
	p.say(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Result{Result: r}})
}

func (p *peer) leave() {
	p.say(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Leave{Leave: &sidecallv1.WorkerLeave{}}})
}

func (p *peer) beat() {
	p.say(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Heartbeat{Heartbeat: &sidecallv1.WorkerHeartbeat{}}})
}

// alive beats until the stream or the test ends.
func (p *peer) alive() *peer {
	go func() {
		for p.ctx.Err() == nil {
			p.beat()
			select {
			case <-time.After(time.Second):
			case <-p.ctx.Done():
			}
		}
	}()
	return p
}

// registration of a worker with a place, and tools that have nothing but a name.
func registration(worker string, tools ...string) *sidecallv1.WorkerRegister {
	r := &sidecallv1.WorkerRegister{Worker: worker, ProtocolVersion: 1, MaxInFlight: 1}
	for _, name := range tools {
		r.Tools = append(r.Tools, &sidecallv1.WorkerTool{Name: name})
	}
	return r
}

func with(r *sidecallv1.WorkerRegister, change func(*sidecallv1.WorkerRegister)) *sidecallv1.WorkerRegister {
	change(r)
	return r
}

// answered is what a call brought.
type answered struct {
	reply   tool.Reply
	failure *tool.Failure
}

// call starts a call.
func (r *rig) call(ctx context.Context, call backend.Invocation) <-chan answered {
	done := make(chan answered, 1)
	call = r.checked(call)
	go func() {
		reply, failure := r.Invoke(ctx, call)
		done <- answered{reply, failure}
	}()
	synctest.Wait()
	return done
}

func to(target string) backend.Invocation {
	return backend.Invocation{Tool: target, Target: target, Args: json.RawMessage(`{}`), IdempotencyKey: "key", Attempt: 1}
}

// checked is a call of a tool as it is now, unless it was checked before.
func (b *Backend) checked(call backend.Invocation) backend.Invocation {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.roster.known[call.Target]; known != nil && call.Declaration == nil {
		call.Declaration = known.declared
	}
	return call
}

// want checks code and evidence of a failure.
func (a answered) want(t *testing.T, code tool.Code, evidence tool.Evidence) *tool.Failure {
	t.Helper()
	if a.failure == nil || a.failure.Code != code || a.failure.Evidence != evidence {
		t.Fatalf("got %q, %v; want %s, %s", a.reply.Text, a.failure, code, evidence)
	}
	return a.failure
}

// text checks a result.
func (a answered) text(t *testing.T, want string) {
	t.Helper()
	if a.failure != nil || string(a.reply.Text) != want {
		t.Fatalf("got %q, %v; want %q", a.reply.Text, a.failure, want)
	}
}

// That the last worker has left in order is told apart from its being lost.
func TestTheLastWorkerHasLeftOrIsLost(t *testing.T) {
	for left, ends := range map[bool]func(*peer){true: (*peer).leave, false: func(p *peer) { p.cancel() }} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, Config{}, nil)
			p := r.hire(registration("agent", "add")).alive()
			ends(p)
			<-p.served
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(r.downs) != 1 || !errors.Is(r.downs[0], errNobody) || errors.Is(r.downs[0], backend.ErrLeft) != left {
				t.Errorf("left %v: told %v", left, r.downs)
			}
		})
	}
}

// A worker that leaves finishes what it has, and is given nothing more.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		p := r.hire(with(registration("agent", "add"), func(r *sidecallv1.WorkerRegister) { r.MaxInFlight = 2 })).alive()
		done := r.call(t.Context(), to("add"))
		in := p.invoked()
		p.leave()
		synctest.Wait()
		next := r.call(t.Context(), to("add"))
		if !p.idle() {
			t.Fatal("it was given another call")
		}
		(<-next).want(t, tool.CodeDependencyUnavailable, tool.NotExecuted)
		p.answer(in.GetInvocationId(), "done")
		(<-done).text(t, "done")
		if err := <-p.served; err != nil {
			t.Errorf("its stream ended with %v", err)
		}
	})
}

// A sidecar that goes says so, lets the calls go on, and nobody in.
func TestGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		p := r.hire(with(registration("agent", "add"), func(r *sidecallv1.WorkerRegister) { r.MaxInFlight = 2 })).alive()
		done := r.call(t.Context(), to("add"))
		in := p.invoked()
		r.Goodbye()
		if p.next().GetGoodbye() == nil {
			t.Fatal("it was not said")
		}
		if err := <-r.join(registration("new", "add")).served; status.Code(err) != codes.Unavailable {
			t.Errorf("another one got %v", err)
		}
		retry := r.call(t.Context(), to("add"))
		p.answer(p.invoked().GetInvocationId(), "retried")
		(<-retry).text(t, "retried")
		p.answer(in.GetInvocationId(), "done")
		(<-done).text(t, "done")
		r.End()
		if err := <-p.served; err != nil {
			t.Errorf("its stream ended with %v", err)
		}
	})
}

// The end of a worker's backend does not overtake its goodbye, nor what was said before
// that. A call that was not sent is handed on and does not wait for it.
func TestTheStreamEndsAfterTheGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		p := r.join(registration("agent", "add")).alive()
		queued := r.call(t.Context(), to("add"))
		r.End()
		if synctest.Wait(); len(p.served) > 0 || r.Workers() > 0 {
			t.Fatalf("it has ended unheard, or is one of %d workers", r.Workers())
		}
		(<-queued).want(t, tool.CodeDependencyUnavailable, tool.NotExecuted)
		if p.next().GetRegistered() == nil || p.next().GetGoodbye() == nil {
			t.Error("it was told something else")
		}
		if err := <-p.served; err != nil {
			t.Errorf("its stream ended with %v", err)
		}
	})
}

// What is still sent after the end is no call, and nothing where the status says it all.
func TestWhatIsSentAfterTheEnd(t *testing.T) {
	for _, why := range []error{nil, errParting} {
		s := &session{backend: New(Config{}), ended: make(chan struct{}), out: []outgoing{{invoke: &invocation{ctx: t.Context()}}, goodbye()}}
		s.stop(why)
		if c := s.next(); (c.GetGoodbye() != nil) != (why == nil) || s.next() != nil {
			t.Errorf("after %v it is sent %v", why, c)
		}
	}
}

// A worker that does not take its goodbye is waited for as long as one that takes nothing
// else.
func TestAGoodbyeThatIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		p := r.hire(registration("agent", "add")).alive()
		began := time.Now()
		r.End()
		if err := <-p.served; status.Code(err) != codes.DeadlineExceeded || time.Since(began) != missedHeartbeats*defaultHeartbeat {
			t.Errorf("after %s its stream ended with %v", time.Since(began), err)
		}
	})
}

// A worker that closes its side has nothing to say of the calls that it has.
func TestAWorkerThatHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		p := r.hire(registration("agent", "add"))
		done := r.call(t.Context(), to("add"))
		p.invoked()
		close(p.closed)
		(<-done).want(t, tool.CodeDependencyUnavailable, tool.Ambiguous)
		if err := <-p.served; err != nil {
			t.Errorf("its stream ended with %v", err)
		}
	})
}
