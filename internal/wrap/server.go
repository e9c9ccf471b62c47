package wrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/mcptool"
)

// noiseShown is how much is shown of what is no message.
const noiseShown = 200

var (
	errEnded    = errors.New("the server has ended")
	errTooLarge = fmt.Errorf("the answer of the server has more than %d bytes", MaxMessage)
)

// Link is the way to a server, for as long as it lasts: a process, or a session over HTTP. What the
// server says goes to the listener that the link was made for.
type Link interface {
	// Send sends a message, and returns when it has left. right, if not nil, is asked for right before
	// the first byte. sent says that the message may have left whole.
	Send(ctx context.Context, message []byte, right backend.Right) (sent bool, err error)
	// Wait returns why the link has ended, and Drain when all that came has been heard: what is under
	// way in a session that was forgotten may still be answered.
	Wait() error
	Drain()
	// End asks for the end, and Ending is closed when it has been asked for, or has come.
	End()
	Ending() <-chan struct{}
}

var _ mcptool.Listener = (*server)(nil)

// server is one life of the server.
type server struct {
	*Relay
	Link

	// first: there was none before it.
	first bool
	// silent is closed when all that it has said was heard.
	silent chan struct{}
	// spoke: it has said something.
	spoke atomic.Bool
	// mute: it was ended because it did not answer the handshake, which is watched once.
	mute    atomic.Bool
	watched sync.Once
	noisy   sync.Once

	waiting
}

// passing is a request of the client that the server has not answered.
type passing struct {
	method string
	// heard, if not nil, is told the answer; nil when none will come.
	heard func(*mcptool.Relayed)
}

// ended says how it has ended: once.
func (p passing) ended(answer *mcptool.Relayed) {
	if p.heard != nil {
		p.heard(answer)
	}
}

// givenUp is the answer to a request that its client has cancelled.
var givenUp = new(mcptool.Relayed)

// open begins a life of the server.
func (r *Relay) open() (s *server, err error) {
	s = &server{
		Relay: r, first: r.lives.Add(1) == 1, silent: make(chan struct{}),
		waiting: waiting{waits: map[string]chan<- mcptool.Relayed{}, passed: map[string]passing{}, asks: map[string]string{}, beats: map[string]func(){}},
	}
	s.Link, err = r.Open(s)
	return s, err
}

func (s *server) ended() bool {
	select {
	case <-s.Ending():
		return true
	default:
		return false
	}
}

// tell sends what waits for nothing. That the server does not take it any more its end says.
func (s *server) tell(text []byte) { _, _ = s.Send(context.Background(), text, nil) }

// ask makes a request of the relay's own.
func (s *server) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	id := s.ids.next()
	return s.exchange(ctx, id, request(id, method, marshal(params)))
}

func (s *server) exchange(ctx context.Context, id string, text []byte) (json.RawMessage, error) {
	answer, forget := s.await(id)
	defer forget()
	if _, err := s.Send(ctx, text, nil); err != nil {
		return nil, err
	}
	select {
	case a := <-answer:
		switch {
		case a.Error != nil:
			return nil, a.Error
		case !a.Said():
			return nil, errors.New(a.Why(ctx))
		case a.Result == nil:
			return nil, errTooLarge
		}
		return a.Result, nil
	case <-s.silent:
		return nil, errEnded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// greet tells the next life of a server how the client has begun, and returns what it says to that.
func (s *server) greet(ctx context.Context, hello hello) (says json.RawMessage, err error) {
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	asks, err := readObject(hello.initialize)
	if err != nil {
		return nil, err
	}
	id := s.ids.next()
	says, err = s.exchange(ctx, id, asks.set("id", marshal(id)).text())
	if err == nil && hello.initialized != nil {
		_, err = s.Send(ctx, hello.initialized, nil)
	}
	return says, err
}

// pass sends a request of the client, whose answer goes to it.
func (s *server) pass(text []byte, id jsontext.Value, of passing) {
	s.mu.Lock()
	before, there := s.passed[string(id)], s.passed != nil
	if there {
		s.passed[string(id)] = of
	}
	s.mu.Unlock()
	before.ended(nil) // of a client that uses its id twice
	if !there {
		s.tooLate(id, of)
		return
	}
	if of.method == methodInitialize {
		s.watched.Do(func() { time.AfterFunc(s.Handshake, func() { s.watch(id) }) })
	}
	if sent, err := s.Send(context.Background(), text, nil); err != nil && !sent {
		s.tooLate(id, s.take(id))
	}
}

// tooLate answers a request that the server does not get any more, unless it was answered.
func (s *server) tooLate(id jsontext.Value, of passing) {
	if of.method == "" {
		return
	}
	of.ended(nil)
	s.refuse(json.RawMessage(id), codeInternal, "the server has just ended; it is being started again")
}

// watch ends a server that has not answered the handshake in its time: nobody could use it.
func (s *server) watch(id jsontext.Value) {
	of := s.take(id)
	if of.method != methodInitialize {
		return
	}
	of.ended(nil)
	s.refuse(json.RawMessage(id), codeInternal, s.neverGreeted().Error())
	s.mute.Store(true)
	s.End()
}

// giveUp forgets a request for which the client does not wait any more: a server that obeys does not
// answer it.
func (s *server) giveUp(id string) {
	s.mu.Lock()
	of := s.passed[id]
	if of.method != methodInitialize { // which nobody can cancel
		delete(s.passed, id)
	}
	s.mu.Unlock()
	if of.method != methodInitialize {
		of.ended(givenUp)
	}
}

func (s *server) neverGreeted() error {
	return fmt.Errorf("the server behind sidecall wrap did not answer initialize within %s", s.Handshake)
}
