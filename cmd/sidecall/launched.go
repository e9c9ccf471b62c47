package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sidecall/sidecall/assembly"
	"github.com/sidecall/sidecall/cmd/sidecall/share"
	"github.com/sidecall/sidecall/config"
)

// startTimeout is how long a launched sidecar has until its program is told where it is.
const startTimeout = time.Minute

// launch is a sidecar that belongs to the program that has started it, or to several that
// have launched it with one config on one embedded store (see package share).
type launch struct {
	dir   string // its own, with its sockets
	out   io.Writer
	until context.Context //nolint:containedctx // the time that the start has
	done  context.CancelFunc

	mu   sync.Mutex  // of what is said, and of host
	host *share.Host // nil where the store is no file
}

// newLaunch makes the directory for the sockets of a launched sidecar.
func newLaunch(ctx context.Context, out io.Writer, timeout time.Duration) (*launch, error) {
	dir, err := os.MkdirTemp("", "sidecall-")
	if err != nil {
		return nil, fmt.Errorf("there is no place for a socket: set TMPDIR to a directory that this user can write: %w", err)
	}
	l := &launch{dir: dir, out: out}
	l.until, l.done = context.WithTimeout(ctx, timeout)
	return l, nil
}

func (l *launch) close() {
	l.done()
	_ = os.RemoveAll(l.dir) // what is left of it is empty, and temporary
}

// address is where it listens.
func (l *launch) address() string { return "unix://" + filepath.Join(l.dir, "agent.sock") }

// enter finds out whether this process is to have the store, or is a guest of the one that
// has it.
func (l *launch) enter(cfg *config.Config, fingerprint string, log slog.Handler) (guest *share.Guest, err error) {
	if cfg.Store.Kind() != "embedded" {
		return nil, nil
	}
	store := cfg.Store.Embedded.Path.Reveal()
	host, guest, err := share.Enter(l.until, store, l.dir, fingerprint, func(why error) {
		slog.New(log).Info("waiting for the store", "store", store, "why", why)
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.host = host
	return guest, err
}

// stay is the life of a guest: its program is told where the host serves.
func (l *launch) stay(ctx context.Context, guest *share.Guest) error {
	l.say(guest.Answer)
	return guest.Stay(ctx)
}

// serve tells the program where the sidecar is, once it is ready or has had its time, and
// whoever comes later.
func (l *launch) serve(sidecar *assembly.Sidecar, config string, from *source) {
	answer := func() share.Answer {
		select {
		case <-sidecar.Ready():
		case <-l.until.Done():
		}
		return share.Answer{Listen: l.address(), Missing: sidecar.Missing()}
	}
	if l.host != nil {
		go l.host.Receive(func(other string) bool { return other == config || other == from.now() }, answer)
	}
	go l.say(answer())
}

// release waits, when the program of the host has gone, until nobody needs it any more.
// The program is told that it is not to wait for the end of this process, and what it read
// of it is closed.
func (l *launch) release(ctx context.Context) {
	l.mu.Lock()
	host := l.host
	l.mu.Unlock()
	if host == nil {
		return
	}
	alone := host.Release()
	select {
	case <-alone:
		return
	default:
	}
	l.say(struct {
		Stays bool `json:"stays"`
	}{true})
	if l.out == os.Stdout {
		letGo()
	}
	select {
	case <-alone:
	case <-ctx.Done():
		host.Go()
	}
}

// say tells the program that has launched the sidecar, in a line of JSON.
func (l *launch) say(what any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = json.NewEncoder(l.out).Encode(what) // it may be gone
}

// letGo ends what whoever started this process reads of it.
func letGo() {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return // then it waits for its own patience
	}
	for _, standard := range []int{unix.Stdout, unix.Stderr} {
		_ = unix.Dup2(int(null.Fd()), standard) // likewise
	}
	_ = null.Close()
}
