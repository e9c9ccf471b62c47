// Package shared is a dedupe.Store that several processes of one user have at once, in one
// file of the embedded store.
//
// That file is of one process. Who gets its lock is the holder: it opens the file, and serves
// it to the others over a unix socket beside it. When the holder ends, however it ends, one of
// the others gets the lock, and they go on with it:
//
//	process ── holder ── embedded store ── file, locked
//	             ▲
//	process ─────┤ unix socket: net/rpc
//	process ─────┘
//
// A request whose connection breaks may or may not have taken effect: it is asked again of the
// next holder, which is always safe (dedupe.Store). What the store decides when it changes hands it
// decides as after any restart: a claim of a call that must not be repeated becomes Unknown, also
// where its owner still runs, who then settles it late, or gives back what it has not heard of.
package shared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
)

const (
	// socketSuffix is behind the name of the file in that of its socket.
	socketSuffix = ".sock"
	// longestSocket is how long the name of a socket may be, in bytes, on every system.
	longestSocket = 100
	// lookAgain is how long is waited between two looks for a holder.
	lookAgain = 10 * time.Millisecond
	// patience bounds how long a request waits for a holder, and for what it answers: one that
	// stands still must not hold the calls of the others.
	patience = 10 * time.Second
)

// errMute is that a holder stands still.
var errMute = errors.New("the process that has the store does not answer")

// Store is the store as one of the processes has it.
type Store struct {
	path    string
	options embedded.Options
	// patience is the constant, but in tests; mute is errMute, with whose it is and what to do.
	patience time.Duration
	mute     error

	// at is where requests go now; nil while nobody knows.
	at atomic.Pointer[place]
	// looking is held by who looks for the next place, and by Close.
	looking chan struct{}
	open    context.Context //nolint:containedctx // of the store, not of a request
	shut    context.CancelCauseFunc
}

var _ dedupe.Store = (*Store)(nil)

// place is the store here, or the connection to its holder.
type place struct {
	holder *holder
	guest  *rpc.Client
}

// Open finds the store at a path, and creates it when there is no file: it becomes its holder,
// or finds who is. Its directory should be its user's alone: who can reach the socket has all
// of the store.
func Open(ctx context.Context, path string, options embedded.Options) (*Store, error) {
	if len(path)+len(socketSuffix) > longestSocket {
		return nil, fmt.Errorf("the store %s: its name is too long for a socket beside it, which may have %d bytes: keep it in a directory with a shorter name", path, longestSocket)
	}
	options.LockWait = time.Nanosecond // others are asked who has it
	s := &Store{path: path, options: options, patience: patience, looking: make(chan struct{}, 1)}
	s.mute = fmt.Errorf("the store %s: %w; end it (fuser %s names it), and another goes on with the file", path, errMute, path)
	s.open, s.shut = context.WithCancelCause(context.Background())
	if _, err := s.find(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// find returns where requests go, and looks for it where nobody knows.
func (s *Store) find(ctx context.Context) (*place, error) {
	if at := s.at.Load(); at != nil {
		return at, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.open, func() { cancel(dedupe.ErrClosed) })()
	select {
	case s.looking <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.looking }()
	var inUse error
	for s.open.Err() == nil && ctx.Err() == nil {
		if at := s.at.Load(); at != nil {
			return at, nil
		}
		at, err := s.look(ctx)
		if err == nil {
			s.at.Store(at)
		}
		if !errors.Is(err, embedded.ErrInUse) {
			return at, err
		}
		inUse = err
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
		}
	}
	err := cmp.Or(context.Cause(s.open), context.Cause(ctx))
	if inUse != nil {
		err = fmt.Errorf("%w (%w)", inUse, err)
	}
	return nil, err
}

// look asks who listens, and becomes the holder where nobody has the file; embedded.ErrInUse when
// another has it who does not listen yet, or any more.
func (s *Store) look(ctx context.Context) (*place, error) {
	if conn, err := (&net.Dialer{}).DialContext(ctx, "unix", s.path+socketSuffix); err == nil {
		return &place{guest: rpc.NewClient(patient{conn, s})}, nil
	}
	store, err := embedded.Open(s.path, s.options)
	if err != nil {
		return nil, err
	}
	held, err := hold(store, s.path+socketSuffix)
	if err != nil {
		return nil, fmt.Errorf("the store %s: others cannot be let in: %w", s.path, errors.Join(err, store.Close()))
	}
	return &place{holder: held}, nil
}

// patient is a connection whose writes end: a holder that stands still reads nothing, and a request that
// it has no room for would hold up all behind it.
type patient struct {
	net.Conn

	store *Store
}

func (p patient) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(p.store.patience)); err != nil {
		return 0, err
	}
	return p.Conn.Write(b)
}

// Close implements dedupe.Store. The others look for another holder then.
func (s *Store) Close() error {
	s.shut(dedupe.ErrClosed)
	s.looking <- struct{}{} // nobody finds another place meanwhile
	defer func() { <-s.looking }()
	at := s.at.Swap(nil)
	if at != nil && at.holder != nil {
		return at.holder.close()
	}
	if at != nil {
		_ = at.guest.Close() // it may have been closed by its holder
	}
	return nil
}

// ask has a request answered: here, or by the holder, and by the next one when that has ended.
func (s *Store) ask(ctx context.Context, q Question) (Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.patience, s.mute)
	defer cancel()
	for {
		if ctx.Err() != nil { // a guest would send it all the same
			return Answer{}, context.Cause(ctx)
		}
		at, err := s.find(ctx)
		if err != nil {
			return Answer{}, err
		}
		if at.holder != nil {
			return q.do(ctx, at.holder.store)
		}
		answer, err := ask(ctx, at.guest, q)
		if !errors.Is(err, errGone) {
			return answer, err
		}
		s.at.CompareAndSwap(at, nil)
	}
}

// Admit implements dedupe.Store.
func (s *Store) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	a, err := s.ask(ctx, Question{Admit: &req})
	return a.Admission, err
}

// Settle implements dedupe.Store.
func (s *Store) Settle(ctx context.Context, settlement dedupe.Settlement) (dedupe.SettleVerdict, error) {
	a, err := s.ask(ctx, Question{Settle: &settlement})
	return a.Verdict, err
}

// Renew implements dedupe.Store.
func (s *Store) Renew(ctx context.Context, r dedupe.Renewal) (dedupe.Record, bool, error) {
	a, err := s.ask(ctx, Question{Renew: &r})
	return a.Record, a.Restored, err
}

// Note implements dedupe.Store.
func (s *Store) Note(ctx context.Context, n dedupe.Note) (dedupe.Known, error) {
	a, err := s.ask(ctx, Question{Note: &n})
	return a.Known, err
}

// ListOpen implements dedupe.Store.
func (s *Store) ListOpen(ctx context.Context, from string) (dedupe.Page, error) {
	a, err := s.ask(ctx, Question{ListOpen: true, From: from})
	return a.Page, err
}

// Find implements dedupe.Store.
func (s *Store) Find(ctx context.Context, search dedupe.Search) (dedupe.Page, error) {
	a, err := s.ask(ctx, Question{Find: &search})
	return a.Page, err
}

// Output implements dedupe.Store.
func (s *Store) Output(ctx context.Context, tenant, ref string) (dedupe.Output, error) {
	a, err := s.ask(ctx, Question{Output: &dedupe.ValueKey{Tenant: tenant, Name: ref}})
	return a.Output, err
}

// Ping implements dedupe.Store.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.ask(ctx, Question{Ping: true})
	return err
}

// Now implements dedupe.Store.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	a, err := s.ask(ctx, Question{Now: true})
	return a.Now, err
}
