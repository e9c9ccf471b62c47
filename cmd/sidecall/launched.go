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

// followTime is how long whoever comes with another config waits until it is in force.
const followTime = 10 * time.Second

// launch is a sidecar that belongs to the program that has started it, or to several that
// have launched it with one config on one embedded store (see package share).
type launch struct {
	dir string // its own, with its sockets
	out io.Writer
	// follows: what the file says anew takes over.
	follows bool
	life    context.Context //nolint:containedctx // of the process
	until   context.Context //nolint:containedctx // the time that the start has
	done    context.CancelFunc

	mu   sync.Mutex  // of what is said, and of host
	host *share.Host // nil where the store is no file
}

// newLaunch makes the directory for the sockets of a launched sidecar.
func newLaunch(ctx context.Context, out io.Writer, timeout time.Duration) (*launch, error) {
	dir, err := os.MkdirTemp("", "sidecall-")
	if err != nil {
		return nil, fmt.Errorf("there is no place for a socket: set TMPDIR to a directory that this user can write: %w", err)
	}
	l := &launch{dir: dir, out: out, life: ctx}
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
func (l *launch) enter(cfg *config.Config, options assembly.Options) (guest *share.Guest, err error) {
	if cfg.Store.Kind() != "embedded" {
		return nil, nil
	}
	store := cfg.Store.Embedded.Path.Reveal()
	host, guest, err := share.Enter(l.until, store, l.dir, identity(cfg, options.Version), func(why error) {
		slog.New(options.Log).Info("waiting for the store", "store", store, "why", why)
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.host = host
	return guest, err
}

// identity is the same of launches that may share a sidecar. One of another version is none
// that the program would have started.
func identity(cfg *config.Config, version string) string { return version + " " + cfg.Fingerprint() }

// stay is the life of a guest: its program is told where the host serves.
func (l *launch) stay(ctx context.Context, guest *share.Guest) error {
	l.say(guest.Answer)
	return guest.Stay(ctx)
}

// serve tells the program where the sidecar is, once it is ready or has had its time, and
// whoever comes later with the config that is in force.
func (l *launch) serve(sidecar *assembly.Sidecar, version string) {
	if l == nil {
		return
	}
	answer := func() share.Answer {
		select {
		case <-sidecar.Ready():
		case <-l.until.Done():
		}
		return share.Answer{Listen: l.address(), Missing: sidecar.Missing()}
	}
	same := func(other string) bool {
		if l.follows && identity(sidecar.Config(), version) != other {
			ctx, cancel := context.WithTimeout(l.life, followTime)
			defer cancel()
			sidecar.Follow(ctx) // the file has changed, perhaps, and nobody has looked yet
		}
		return identity(sidecar.Config(), version) == other
	}
	if l.host != nil {
		go l.host.Receive(same, answer)
	}
	go l.say(answer())
}

// shut has nobody come any more.
func (l *launch) shut() {
	if l != nil && l.host != nil {
		l.host.Go()
	}
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
