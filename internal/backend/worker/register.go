package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// maxRefusal bounds the message of a refusal, in bytes.
const maxRefusal = 4 << 10

// Serve keeps a worker of a tenant that has sent its registration, until either side
// ends the stream; it returns the status of that. A registration that is refused leaves
// nothing behind.
func (b *Backend) Serve(tenant string, register *sidecallv1.WorkerRegister, stream Stream) error {
	if !b.enter() {
		return errParting
	}
	defer b.running.Done()
	select {
	case <-b.started:
	case <-b.ending.Done():
		return errParting
	case <-stream.Context().Done():
		return status.FromContextError(stream.Context().Err()).Err()
	}
	s, err := b.register(tenant, register, stream)
	if err != nil {
		b.Refuse(tenant, register, err)
		b.log.Warn("a worker was refused", "worker", tool.Shorten(register.GetWorker(), longestName), "error", err)
		return err
	}
	s.log.Info("a worker has come", "tools", len(s.tools), "max_in_flight", s.most)
	err = s.serve()
	b.remove(s, err) // first: its calls do not wait until it has taken the last word
	if err == nil {
		err = s.farewell()
	}
	return err
}

// register takes a worker in, with all its tools or not at all. Where it declares a tool
// otherwise than a worker that serves it, it waits until that one has ended or is proven
// to live: who hangs up and comes again is often here before its end is.
func (b *Backend) register(tenant string, register *sidecallv1.WorkerRegister, stream Stream) (*session, error) {
	tools, err := b.cfg().declaration(register)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(stream.Context(), (missedHeartbeats+2)*b.cfg().Heartbeat)
	defer cancel()
	for {
		s, err := b.take(tenant, register, tools, stream)
		conflict, ok := errors.AsType[*conflict](err)
		if !ok {
			return s, err
		}
		if err := b.outlast(ctx, conflict); err != nil {
			if err := stream.Context().Err(); err != nil {
				return nil, status.FromContextError(err).Err()
			}
			return nil, err
		}
	}
}

// maxOutlasting bounds the registrations that wait for the end of others.
const maxOutlasting = 16

// outlast waits until the worker that stands in the way has ended. The error is lasting
// only where that one lives.
func (b *Backend) outlast(ctx context.Context, c *conflict) error {
	defer b.outlasting.Add(-1)
	if b.outlasting.Add(1) <= maxOutlasting {
		switch lives, err := c.with.proven(ctx); {
		case lives:
			return status.Error(codes.FailedPrecondition, c.Error())
		case err == nil || errors.Is(err, errParting):
			return err
		}
	}
	return status.Error(codes.Unavailable, c.Error()+"; whether that one lives is not known yet: try again")
}

// conflict is a tool that a worker declares otherwise than one that serves it.
type conflict struct {
	with       *session
	tool, what string
}

func (c *conflict) Error() string {
	return fmt.Sprintf("tool %s: its %s is another one than that of the worker %s, which serves it: all workers of a tool declare the same; end the others first, or call it otherwise",
		c.tool, c.what, c.with.name)
}

// maxQueued bounds the registrations that wait for their turn; a config that takes over
// waits for them too.
const maxQueued = 16

// turn waits for the place in which a registration is looked at, for as long as its stream
// lasts.
func (b *Backend) turn(ctx context.Context) error {
	defer b.queued.Add(-1)
	if b.queued.Add(1) > maxQueued {
		return status.Errorf(codes.Unavailable, "%d workers wait already for their registrations to be looked at: try again", maxQueued)
	}
	select {
	case b.registering <- struct{}{}:
		if ctx.Err() == nil {
			return nil
		}
		<-b.registering
	case <-b.ending.Done():
		return errParting
	case <-ctx.Done():
	}
	return status.FromContextError(ctx.Err()).Err()
}

// take takes a worker in if nothing stands in the way now; else the error may be a
// *conflict.
func (b *Backend) take(tenant string, register *sidecallv1.WorkerRegister, tools []*declared, stream Stream) (*session, error) {
	if err := b.turn(stream.Context()); err != nil {
		return nil, err
	}
	defer func() { <-b.registering }()
	if b.update == nil {
		return nil, errParting
	}
	b.mu.Lock()
	next, news, err := b.roster.with(b.cfg(), tenant, register.GetWorker(), tools)
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	found := discovered(next)
	if news.tools {
		if err := b.examine.admit(next, found); err != nil {
			return nil, err
		}
	}
	if news.tools || news.first {
		b.update(found, nil) // first: what it says may have its tools refused
	}
	return b.admit(tenant, register, tools, next, stream)
}

// clipped is a message that may have words of others in it, in one line.
func clipped(message string) string {
	return tool.ShortenBytes(text(strings.Join(strings.Fields(message), " ")), maxRefusal)
}

// admit lets a worker have calls.
func (b *Backend) admit(tenant string, register *sidecallv1.WorkerRegister, tools []*declared, next map[string]*known, stream Stream) (*session, error) {
	s := &session{
		backend: b, stream: stream, tenant: tenant, name: register.GetWorker(), client: register.GetClient(),
		log:   b.log.With("worker", register.GetWorker()),
		tools: make(map[string]*declared, len(tools)), most: min(max(int(register.GetMaxInFlight()), 1), b.cfg().MaxInFlight),
		heartbeat: b.cfg().Heartbeat, busy: make(map[string]*invocation), toSay: make(chan struct{}, 1), ended: make(chan struct{}), written: make(chan struct{}),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.parting {
		return nil, errParting
	}
	registered := &sidecallv1.WorkerRegistered{
		HeartbeatInterval: durationpb.New(s.heartbeat), MaxInFlight: int32(s.most), MaxMessageBytes: b.cfg().MaxMessage,
	}
	for _, d := range tools {
		s.tools[d.Name] = next[d.Name].declared // one for all who declare the same
		if tenant == "" {
			next[d.Name].owner = s.name
		}
		registered.Tools = append(registered.Tools, accepted(d, next[d.Name].admitted))
	}
	b.roster.known = next
	s.say(outgoing{command: &sidecallv1.WorkerCommand{Command: &sidecallv1.WorkerCommand_Registered{Registered: registered}}})
	b.roster.turn++
	s.last = b.roster.turn
	b.roster.sessions[s] = struct{}{}
	b.roster.fill(s)
	b.roster.relieve(tenant, register)
	return s, nil
}

// accepted is what a worker is told of its tool.
func accepted(d *declared, as Admitted) *sidecallv1.WorkerAccepted {
	if as.Name == "" { // nobody has looked at it
		as.Name, as.Effect = d.Name, d.Effect
	}
	told := &sidecallv1.WorkerAccepted{Name: d.Name, ToolName: as.Name, LeftOut: as.LeftOut}
	for on, effect := range effects {
		if effect == as.Effect {
			told.Effect = on
		}
	}
	return told
}

// remove takes a worker out whose session is over. What it had been sent is of unknown
// outcome; what it had not is handed on.
func (b *Backend) remove(s *session, why error) {
	b.mu.Lock()
	delete(b.roster.sessions, s)
	s.leaving = true
	b.roster.handOn(s)
	count := len(s.busy)
	for id, inv := range s.busy {
		delete(s.busy, id)
		inv.end(outcome{failure: lost(why)})
	}
	last := len(b.roster.sessions) == 0
	b.mu.Unlock()
	s.log.Info("a worker has gone", "calls_lost", count, "status", status.Code(why).String(), "error", why)
	if last {
		b.tellEmpty(why == nil)
	}
}

// tellEmpty says that no worker is there, if it is still so, and whether the last one has
// left in order.
func (b *Backend) tellEmpty(left bool) {
	b.registering <- struct{}{}
	defer func() { <-b.registering }()
	b.mu.Lock()
	empty := len(b.roster.sessions) == 0 && !b.parting // at the end nobody asks
	b.mu.Unlock()
	switch {
	case b.update == nil || !empty:
	case left:
		b.update(nil, errLeft)
	default:
		b.update(nil, errNobody)
	}
}
