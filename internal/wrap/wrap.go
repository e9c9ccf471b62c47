// Package wrap stands in for an MCP server in a client's config.
//
// It is a relay: what client and server say to each other passes byte for byte, whatever it is
// and whatever revision it is of, but for two things. A tools/call of the client goes through
// a sidecar inside of this process, and from there, as a call of the backend that Relay is, to
// the same server. And the answer to tools/list has read_output more.
//
//	client ──stdin──▶ Relay.fromClient ──▶ server ──▶ Link (process, or mcptool.Remote)
//	                     │  tools/call        ▲
//	                     ▼                    │ Invoke
//	                  sidecar (app.Inner) ────┘
//	client ◀─stdout── Relay ◀── server.Hear ◀── Link
//
// For that the relay knows the tools, which it lists by itself: after the client's handshake,
// and when they have changed. What it asks has ids that no client can have.
package wrap

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
)

var _ backend.Discoverer = (*Relay)(nil)

// New returns a relay. Nothing runs yet.
func New(o Options) *Relay {
	o.Handshake = cmp.Or(max(o.Handshake, 0), firstHandshake)
	r := &Relay{Options: o, ids: ids{prefix: "sidecall/" + rand.Text() + "/"}, turns: turns{turned: make(chan struct{}), all: map[*server]bool{}}}
	r.calls.cancels = map[string]context.CancelFunc{}
	r.tools.init()
	return r
}

// Serve relays until the client has gone, the server cannot be started, or ctx ends. Calls in
// flight then end, within patience.
func (r *Relay) Serve(ctx context.Context, executor Executor, patience time.Duration) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // calls may end after ctx does
	defer end()
	kept := make(chan error, 1)
	go func() { kept <- r.keep(life) }()
	read := make(chan struct{})
	go func() { // ends with the client, or with this process: what it reads from may not
		defer close(read)
		r.fromClient(life, executor)
	}()
	select {
	case err := <-kept:
		r.calls.end(lastAnswers)
		return err
	case <-read:
	case <-ctx.Done():
	}
	r.calls.end(patience)
	end()
	err := <-kept
	r.calls.end(lastAnswers) // those whose server has been ended are of unknown outcome now
	return err
}

// keep has the server run until ctx ends. The error is that it cannot.
func (r *Relay) keep(ctx context.Context) error {
	var drains sync.WaitGroup
	defer drains.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	for fails := 0; ; fails++ {
		began := time.Now()
		spoke, why := r.run(ctx, &drains)
		switch {
		case ctx.Err() != nil:
			return nil // it was asked to end
		case fails == 0 && !spoke:
			return fmt.Errorf("the server cannot be run: %w", why)
		case time.Since(began) > restartMax:
			fails = 0
		}
		wait := min(restartBase<<min(fails, 10), restartMax)
		r.Log.Warn("the server has ended; it is begun again", "error", why, "in", wait)
		r.tools.down(why)
		again := time.NewTimer(wait)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil
		}
	}
}

// run is one life of the server: from its handshake, where it is not the first, to its end. What is
// left of it then drains. spoke says that it has said something, why that it has ended.
func (r *Relay) run(ctx context.Context, drains *sync.WaitGroup) (spoke bool, why error) {
	s, err := r.open()
	if err != nil {
		return false, err
	}
	r.begun(s)
	stop := context.AfterFunc(ctx, s.End)
	hello := r.opening.said()
	if hello.initialize == nil {
		r.turn(s)
	} else {
		go func() {
			says, err := s.greet(ctx, hello)
			if err != nil {
				r.Log.Warn("the server does not take its handshake again", "error", err)
				s.End()
				return
			}
			r.tools.declared(says)
			r.turn(s)
			r.tools.wish()
		}()
	}
	if why = s.Wait(); s.mute.Load() {
		why = s.neverGreeted()
	}
	r.turn(nil)
	drains.Go(func() {
		defer stop()
		r.drain(s)
	})
	return s.spoke.Load(), why
}

// Close implements backend.Backend: the process is Serve's.
func (r *Relay) Close(context.Context) error { return nil }
