package mcptool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// settle is how long changes of the tool list are collected.
	settle = 100 * time.Millisecond
	// relistAfter is the least time between two readings of the tool list, and
	// the time before a failed one is repeated.
	relistAfter = time.Second
	// retireAfter bounds how long calls of a replaced session may go on.
	retireAfter = time.Minute
	// missedPings in a row are a hang.
	missedPings = 2
)

var (
	errExpired = errors.New("the server does not know the session any more")
	errClosed  = errors.New("the backend is closed")
	errOpening = errors.New("the connection is being opened")
)

// Run implements backend.Discoverer. It may be called once.
func (b *Backend) Run(ctx context.Context, update func(tools []tool.Discovered, err error)) {
	if !b.running.Enter() {
		return
	}
	defer b.running.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.closing, func() { cancel(errClosed) })()

	var (
		fails int    // in a row
		told  string // the reason that update was last told
	)
	b.state.await(errOpening)
	for {
		s, tools, err := b.open(ctx)
		var lived time.Duration
		if err == nil {
			update(tools, nil) // first: what it says may have its tools refused
			b.state.turn(&state{session: s})
			b.running.Go(b.subscribeAgain)
			told = ""
			err = b.keep(ctx, s, tools, update)
			lived = time.Since(s.since)
		}
		if ctx.Err() != nil {
			b.state.turn(&state{reason: errClosed})
			if s != nil {
				s.refuse()
				s.end()
			}
			return
		}
		// A server that forgets every session at once is treated as one
		// that fails.
		if errors.Is(err, errExpired) && lived > b.timing.RestartBase {
			b.state.await(errOpening)
			b.retire(s, err)
			continue
		}
		if lived > b.timing.RestartMax {
			fails = 0
		}
		wait := b.timing.backoff(fails)
		b.state.turn(&state{opening: make(chan struct{}), due: time.Now().Add(wait), reason: err})
		if s != nil {
			b.retire(s, err)
		}
		if err.Error() != told {
			told = err.Error()
			b.log.Warn("the MCP server is down", "error", err)
			update(nil, err)
		}
		pause(ctx, wait)
		b.state.await(err)
		fails++
	}
}

// retire gives up a session. One that has expired lets its calls end.
func (b *Backend) retire(s *session, reason error) {
	s.refuse()
	b.running.Go(func() {
		if errors.Is(reason, errExpired) {
			timer := time.NewTimer(retireAfter)
			defer timer.Stop()
			select {
			case <-s.idle:
			case <-s.lost:
			case <-timer.C:
			case <-b.closing.Done():
			}
		}
		s.end()
	})
}

// backoff is how long to wait after that many failures in a row: between half
// and the whole of a delay that doubles up to its maximum.
func (t Timing) backoff(fails int) time.Duration {
	d := t.RestartMax
	if fails < 30 { // a shift that cannot overflow
		d = min(d, t.RestartBase<<fails)
	}
	return d/2 + rand.N(d/2+1)
}

// pause waits until d has passed or ctx has ended.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// keep watches over an open session until it is over, and returns why.
func (b *Backend) keep(ctx context.Context, s *session, tools []tool.Discovered, update func([]tool.Discovered, error)) error {
	ping := time.NewTicker(b.timing.PingEvery)
	defer ping.Stop()
	for {
		suspect := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.lost:
			return s.reason()
		case <-s.expired:
			return errExpired
		case <-s.changed:
			tools = b.relist(ctx, s, tools, update)
			continue
		case <-s.suspect:
			suspect = true
		case <-ping.C:
		}
		// A server that works on a call may be unable to answer pings: it is
		// asked only when idle, or when a call has just timed out.
		if !suspect && (s.busy() || s.silence() < b.timing.PingEvery) {
			continue
		}
		if err := s.alive(ctx, b.timing.Ping); err != nil {
			return err
		}
	}
}

// alive pings the server and returns an error when it hangs.
func (s *session) alive(ctx context.Context, within time.Duration) error {
	var missed error
	for range missedPings {
		if missed = s.ping(ctx, within); missed == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.lost:
			return s.reason()
		case <-s.expired:
			return errExpired
		default:
		}
	}
	return fmt.Errorf("the server does not answer pings: %w", missed)
}

// relist reads the tool list again, tells update when it has changed, and
// returns it.
func (b *Backend) relist(ctx context.Context, s *session, tools []tool.Discovered, update func([]tool.Discovered, error)) []tool.Discovered {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	pause(ctx, settle)
	select {
	case <-s.changed: // what came meanwhile is read now
	default:
	}
	found, err := b.discover(ctx, s)
	if ctx.Err() != nil {
		return tools
	}
	// However often the server says so, not more often than this; the signal
	// of a change in the meantime is kept.
	defer pause(ctx, relistAfter)
	if err != nil {
		b.log.Warn("the MCP server's tool list could not be read again; the last one stays", "error", err)
		notify(s.changed)
		return tools
	}
	if !reflect.DeepEqual(found, tools) {
		update(found, nil)
	}
	return found
}
