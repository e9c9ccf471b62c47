package wrap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/backend/lines"
	"github.com/sidecall/sidecall/internal/backend/mcptool"
	"github.com/sidecall/sidecall/internal/backend/process"
)

const (
	// stdinGrace is how long a server may take to end once its input is closed, termGrace after
	// SIGTERM.
	stdinGrace, termGrace = time.Second, time.Second
	// lastWords is how long output is still read after the process has ended.
	lastWords = 200 * time.Millisecond
	// pipeBuffer is as much as a pipe holds.
	pipeBuffer = 64 << 10
	// noiseShown is how much is shown of what is no message.
	noiseShown = 200
)

var (
	errEnded    = errors.New("the server has ended")
	errTooLarge = fmt.Errorf("the answer of the server has more than %d bytes", MaxMessage)
)

// server is a running process.
type server struct {
	*Relay

	cmd   *exec.Cmd
	in    *os.File
	out   *os.File
	lines *lines.Reader
	// writing is held by the one who writes.
	writing chan struct{}
	ending  sync.Once
	closing chan struct{}
	// gone is closed when the process has been waited for; reason is then set.
	gone   chan struct{}
	reason error
	// silent is closed when all that it has said was read.
	silent chan struct{}
	// spoke: it has said something.
	spoke atomic.Bool
	noisy sync.Once

	mu sync.Mutex
	// waits are the requests of the relay, passed those of the client, asks the server's own,
	// each by its id until it is answered. The latter two are nil when it has ended.
	waits  map[string]chan<- mcptool.Relayed
	passed map[string]passing
	asks   map[string]bool
	// beats hear of progress, by its token.
	beats map[string]func()
}

// passing is a request of the client that the server has not answered.
type passing struct {
	method string
	// heard, if not nil, is told the answer; nil when none will come.
	heard func(*message)
}

// start starts the process, with the environment and the directory of its spec. What it writes to
// its standard error goes where that of this process does.
func (r *Relay) start() (*server, error) {
	cmd, err := r.Server.Prepare()
	if err != nil {
		return nil, err
	}
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), in.Close())
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, os.Stderr
	err = process.Start(cmd)
	_, _ = stdin.Close(), stdout.Close() // the process has its own
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	s := &server{
		Relay: r, cmd: cmd, in: in, out: out, lines: lines.New(out, MaxMessage, pipeBuffer),
		writing: make(chan struct{}, 1), closing: make(chan struct{}), gone: make(chan struct{}), silent: make(chan struct{}),
		waits: map[string]chan<- mcptool.Relayed{}, passed: map[string]passing{}, asks: map[string]bool{}, beats: map[string]func(){},
	}
	go s.reap()
	return s, nil
}

// end asks the process to end, as MCP does: its input is closed.
func (s *server) end() {
	s.ending.Do(func() {
		close(s.closing)
		_ = s.in.Close() // which is all that is wanted
	})
}

func (s *server) ended() bool {
	select {
	case <-s.gone:
		return true
	case <-s.closing:
		return true
	default:
		return false
	}
}

// reap waits for the process, ends it when it is asked to, and ends what it leaves behind.
func (s *server) reap() {
	exited := make(chan error, 1)
	go func() { exited <- s.cmd.Wait() }()
	within := func(d time.Duration) (ended bool) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case s.reason = <-exited:
			return true
		case <-timer.C:
			return false
		}
	}
	select {
	case s.reason = <-exited:
	case <-s.closing:
		if !within(stdinGrace) {
			process.Terminate(s.cmd)
			if !within(termGrace) {
				process.Kill(s.cmd)
				s.reason = <-exited
			}
		}
	}
	process.Kill(s.cmd)
	process.End(s.cmd)
	if s.reason == nil {
		s.reason = errors.New("exit status 0")
	}
	s.reason = fmt.Errorf("the server process ended (%w)", s.reason)
	_ = s.out.SetReadDeadline(time.Now().Add(lastWords)) // whoever left the group may hold it open
	close(s.gone)
	s.end()
}

// read reads what the server says, until it has ended.
func (s *server) read() {
	defer close(s.silent)
	for {
		ln, err := s.lines.Next()
		if err != nil {
			_ = s.out.Close() // it has been read
			s.end()           // who has closed its output will not be heard any more
			return
		}
		if ln.Giant {
			s.giant(ln)
			continue
		}
		text := bytes.TrimSpace(bytes.TrimPrefix(ln.Text, []byte("\ufeff")))
		if len(text) == 0 {
			continue
		}
		for _, one := range unbatch(text) {
			s.hear(one)
		}
	}
}

// tell sends what waits for nothing. That the server does not take it any more its end says.
func (s *server) tell(text []byte) { _, _ = s.send(context.Background(), text, nil) }

// errWithheld is that the right to send was gone.
var errWithheld = errors.New("the right to send the call is gone")

// send writes a message. held, if not nil, is asked for the right to right before the first byte.
// sent says that the message may have left whole: without its end it is no JSON.
func (s *server) send(ctx context.Context, text []byte, held func() bool) (sent bool, err error) {
	select {
	case s.writing <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	case <-s.closing:
		return false, errEnded
	}
	defer func() { <-s.writing }()
	_ = s.in.SetWriteDeadline(time.Time{})
	expired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = s.in.SetWriteDeadline(time.Unix(1, 0))
		close(expired)
	})
	defer func() {
		if !stop() {
			<-expired // or it would hit the next one
		}
	}()
	if held != nil && !held() {
		return false, errWithheld
	}
	n, err := s.in.Write(append(slices.Clip(text), '\n'))
	if err != nil && n > 0 {
		s.end() // nothing can follow a part of a message
	}
	return n >= len(text), err
}

// await has the answer to a request of the relay come to a channel; forget takes that back.
func (s *server) await(id string) (answer <-chan mcptool.Relayed, forget func()) {
	waits := make(chan mcptool.Relayed, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits[id] = waits
	return waits, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waits, id)
	}
}

// ask makes a request of the relay's own.
func (s *server) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	id := s.newID()
	return s.exchange(ctx, id, request(id, method, marshal(params)))
}

func (s *server) exchange(ctx context.Context, id string, text []byte) (json.RawMessage, error) {
	answer, forget := s.await(id)
	defer forget()
	if _, err := s.send(ctx, text, nil); err != nil {
		return nil, err
	}
	select {
	case a := <-answer:
		switch {
		case a.Error != nil:
			return nil, a.Error
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

// greeted notes that the client has begun: the next process is told so.
func (s *server) greeted() {
	s.Relay.mu.Lock()
	defer s.Relay.mu.Unlock()
	s.hello.initialize = s.greeting
}

// greet tells a process that was started again how the client has begun. Its answer is nobody's.
func (s *server) greet(ctx context.Context, hello opening) error {
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	asks, err := readObject(hello.initialize)
	if err != nil {
		return err
	}
	id := s.newID()
	if _, err := s.exchange(ctx, id, asks.set("id", marshal(id)).text()); err != nil {
		return err
	}
	if hello.initialized != nil {
		_, err = s.send(ctx, hello.initialized, nil)
	}
	return err
}

// pass sends a request of the client, whose answer goes to it.
func (s *server) pass(text []byte, id jsontext.Value, of passing) {
	s.mu.Lock()
	there := s.passed != nil
	if there {
		s.passed[string(id)] = of
	}
	s.mu.Unlock()
	if !there {
		if of.heard != nil {
			of.heard(nil)
		}
		s.refuse(json.RawMessage(id), codeInternal, "the server has just ended; it is being started again")
		return
	}
	s.tell(text)
}
