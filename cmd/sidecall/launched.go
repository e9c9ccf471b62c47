package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sidecall/sidecall/cmd/sidecall/share"
	"github.com/sidecall/sidecall/internal/app"
	"github.com/sidecall/sidecall/internal/config"
)

// startTimeout is how long a launched sidecar has until its program is told where it is.
const startTimeout = time.Minute

// launch is a sidecar that belongs to the program that has started it, or to several that
// have launched it with one config on one embedded store (see package share).
type launch struct {
	dir  string // its own, with its sockets
	out  io.Writer
	from *source
	// life is that of the process, until the time that the start has.
	life, until context.Context //nolint:containedctx // of what goes on without its caller
	done        context.CancelFunc

	mu   sync.Mutex  // of what is said, and of host
	host *share.Host // nil where the store is no file
}

// newLaunch makes the directory for the sockets of a launched sidecar.
func newLaunch(ctx context.Context, out io.Writer, from *source, timeout time.Duration) (*launch, error) {
	dir, err := os.MkdirTemp("", "sidecall-")
	if err != nil {
		return nil, fmt.Errorf("there is no place for a socket: set TMPDIR to a directory that this user can write: %w", err)
	}
	l := &launch{dir: dir, out: out, from: from, life: ctx}
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
// has it. A host that has another config may have read the file later: it is read again
// then, and what it says is the config.
func (l *launch) enter(cfg *config.Config, options app.Options) (*config.Config, *share.Guest, error) {
	for {
		guest, err := l.visit(cfg, options)
		if !errors.Is(err, share.ErrOther) {
			return cfg, guest, err
		}
		now, wrong := l.from.Load()
		if wrong != nil || now.Fingerprint == cfg.Fingerprint {
			return cfg, nil, err
		}
		cfg = now
	}
}

func (l *launch) visit(cfg *config.Config, options app.Options) (guest *share.Guest, err error) {
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
func identity(cfg *config.Config, version string) string { return version + " " + cfg.Fingerprint }

// stay is the life of a guest: its program is told where the host serves.
func (l *launch) stay(ctx context.Context, guest *share.Guest) error {
	l.say(guest.Answer)
	return guest.Stay(ctx)
}

// serve tells the program where the sidecar is, once it is ready or has had its time, and
// whoever comes later with the config that is in force.
func (l *launch) serve(sidecar *app.Sidecar, version string) {
	if l == nil {
		return
	}
	place := func(ctx context.Context) (share.Answer, error) {
		select {
		case <-sidecar.Ready():
		case <-ctx.Done():
		case <-l.life.Done():
		}
		if l.life.Err() != nil {
			return share.Answer{}, share.ErrGoing
		}
		return share.Answer{Listen: l.address(), Missing: sidecar.Missing()}, nil
	}
	if l.host != nil {
		go l.host.Receive(func(ctx context.Context, guest string) (share.Answer, error) {
			if err := l.agree(ctx, sidecar, version, guest); err != nil {
				return share.Answer{}, err
			}
			return place(ctx)
		})
	}
	go func() {
		if answer, err := place(l.until); err == nil {
			l.say(answer)
		}
	}()
}

// agree waits, at most until ctx ends, until what a guest has is in force, for as long as the
// file says just that: it may have changed since this sidecar has read it. The error says
// what is known of why it is not.
func (l *launch) agree(ctx context.Context, sidecar *app.Sidecar, version, guest string) error {
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for identity(sidecar.Config(), version) != guest {
		last := sidecar.Following()
		switch read, err := l.from.Again().Load(); {
		case err != nil || identity(read, version) != guest:
			return share.ErrOther
		case !l.from.watch:
			return errors.New("its file has changed since it began, and it does not watch it")
		case last.Config != nil && identity(last.Config, version) == guest:
			return fmt.Errorf("its file has changed since it began, to what it cannot take over: %s", last.Refused)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("its file has changed, and is not in force yet: %s", cmp.Or(last.Waiting, "it takes its time"))
		}
	}
	return nil
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
