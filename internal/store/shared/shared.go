package shared

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
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

var (
	// errGone is that the holder has ended, or is about to: nothing is known of the request.
	errGone = errors.New("the process that has the store has ended")
	// errMute is that it stands still.
	errMute = errors.New("the process that has the store does not answer")
)

// Store is the store as one of the processes has it.
type Store struct {
	path    string
	options embedded.Options
	// patience is the constant, but in tests.
	patience time.Duration

	// at is where requests go now; nil while nobody knows.
	at atomic.Pointer[place]
	// looking is held by who looks for the next place, and by Close.
	looking chan struct{}
	open    context.Context //nolint:containedctx // of the store, not of a request
	shut    context.CancelFunc
}

var (
	_ dedupe.Store  = (*Store)(nil)
	_ dedupe.Clock  = (*Store)(nil)
	_ dedupe.Ledger = (*Store)(nil)
)

// place is the store here, or the connection to its holder.
type place struct {
	holder *holder
	guest  *guest
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
	s.open, s.shut = context.WithCancel(context.Background())
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
	for at := s.at.Load(); ; at = nil {
		switch {
		case at != nil:
			return at, nil
		case s.open.Err() != nil:
			return nil, dedupe.ErrClosed
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		at, err := s.look(ctx)
		if at != nil {
			s.at.Store(at)
		}
		if at != nil || err != nil {
			return at, err
		}
		again := time.NewTimer(lookAgain)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
		}
	}
}

// look asks who listens, and becomes the holder where nobody has the file; neither when
// another has it who does not listen yet, or any more.
func (s *Store) look(ctx context.Context) (*place, error) {
	if conn, err := (&net.Dialer{}).DialContext(ctx, "unix", s.socket()); err == nil {
		return &place{guest: newGuest(conn)}, nil
	}
	store, err := embedded.Open(s.path, s.options)
	if errors.Is(err, embedded.ErrInUse) {
		return nil, nil //nolint:nilnil // as is said above
	}
	if err != nil {
		return nil, err
	}
	held, err := hold(store, s.socket())
	if err != nil {
		return nil, fmt.Errorf("the store %s: others cannot be let in: %w", s.path, errors.Join(err, store.Close()))
	}
	return &place{holder: held}, nil
}

func (s *Store) socket() string { return s.path + socketSuffix }

// Holds reports that this process is the holder.
func (s *Store) Holds() bool {
	at := s.at.Load()
	return at != nil && at.holder != nil
}

// Close implements dedupe.Store. The others look for another holder then.
func (s *Store) Close() error {
	s.shut()
	s.looking <- struct{}{} // nobody finds another place meanwhile
	defer func() { <-s.looking }()
	at := s.at.Swap(nil)
	switch {
	case at == nil:
		return nil
	case at.guest != nil:
		return at.guest.close()
	}
	return at.holder.close()
}

// ask has a request answered: here, or by the holder, and by the next one when that has ended.
func ask[Q, A any](ctx context.Context, s *Store, method string, q Q, here func(context.Context, *embedded.Store, Q) (A, error)) (answer A, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.patience, errMute)
	defer cancel()
	for {
		if ctx.Err() != nil {
			return answer, context.Cause(ctx)
		}
		at, err := s.find(ctx)
		if err != nil {
			return answer, err
		}
		if at.holder != nil {
			return here(ctx, at.holder.store, q)
		}
		answer, err := call[Q, A](ctx, at.guest, method, q)
		if !errors.Is(err, errGone) {
			return answer, err
		}
		s.at.CompareAndSwap(at, nil)
	}
}

// Admit implements dedupe.Store.
func (s *Store) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	return ask(ctx, s, "Admit", req, admit)
}

// Settle implements dedupe.Store.
func (s *Store) Settle(ctx context.Context, settlement dedupe.Settlement) (dedupe.SettleVerdict, error) {
	return ask(ctx, s, "Settle", settlement, settle)
}

// Renew implements dedupe.Store.
func (s *Store) Renew(ctx context.Context, r dedupe.Renewal) (dedupe.Record, bool, error) {
	answer, err := ask(ctx, s, "Renew", r, renew)
	return answer.Record, answer.Restored, err
}

// Lookup implements dedupe.Store.
func (s *Store) Lookup(ctx context.Context, key tool.CallID) (dedupe.Record, error) {
	return ask(ctx, s, "Lookup", key, lookup)
}

// Note implements dedupe.Store.
func (s *Store) Note(ctx context.Context, n dedupe.Note) (dedupe.Known, error) {
	return ask(ctx, s, "Note", n, note)
}

// ListOpen implements dedupe.Store.
func (s *Store) ListOpen(ctx context.Context, from string) (dedupe.Page, error) {
	page, err := ask(ctx, s, "ListOpen", from, listOpen)
	return page.read(), err
}

// Find implements dedupe.Store.
func (s *Store) Find(ctx context.Context, search dedupe.Search) (dedupe.Page, error) {
	page, err := ask(ctx, s, "Find", search, find)
	return page.read(), err
}

// Output implements dedupe.Store.
func (s *Store) Output(ctx context.Context, tenant, ref string) (dedupe.Output, error) {
	return ask(ctx, s, "Output", OutputName{tenant, ref}, output)
}

// Receipts implements dedupe.Ledger.
func (s *Store) Receipts(ctx context.Context, tenant, conversation string, from int64) (dedupe.Chain, error) {
	return ask(ctx, s, "Receipts", Lines{tenant, conversation, from}, receipts)
}

// Ping implements dedupe.Store.
func (s *Store) Ping(ctx context.Context) error {
	_, err := ask(ctx, s, "Ping", true, ping)
	return err
}

// Now implements dedupe.Clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	return ask(ctx, s, "Now", true, now)
}

// holder serves the store of this process to the others.
type holder struct {
	store    *embedded.Store
	listener net.Listener

	mu      sync.Mutex
	guests  map[net.Conn]bool // nil once closed
	serving sync.WaitGroup
}

// hold listens for the others. What is left of an earlier holder's socket leads to nobody: the
// lock of the file is this one's.
func hold(store *embedded.Store, socket string) (*holder, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", socket) //nolint:noctx // it does not block
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	h := &holder{store: store, listener: listener, guests: map[net.Conn]bool{}}
	server := newServer(store)
	h.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			h.serving.Go(func() {
				if h.enter(conn) {
					server.ServeConn(conn)
				}
				h.leave(conn)
			})
		}
	})
	return h, nil
}

func (h *holder) enter(conn net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.guests == nil {
		return false
	}
	h.guests[conn] = true
	return true
}

func (h *holder) leave(conn net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.guests, conn)
	_ = conn.Close() // it may be closed
}

// close sends the guests away before it lets go of the file: the socket is then the next one's.
func (h *holder) close() error {
	err := h.listener.Close()
	h.mu.Lock()
	for conn := range h.guests {
		_ = conn.Close() // which is how they hear of it
	}
	h.guests = nil
	h.mu.Unlock()
	h.serving.Wait()
	return errors.Join(err, h.store.Close())
}
