package conn

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/failpoint"
)

// Trip is one request over HTTP on its way. It knows whether any of it left, and
// keeps it from leaving when it may not, or where it would get an answer that is
// not its own. Its zero value is ready; it serves one round trip.
type Trip struct {
	// Right to send, asked right before the first byte; nil is always held.
	Right backend.Right
	// Stop ends the context of the round trip. Where it is nil, HTTP/2 cannot
	// be kept from sending.
	Stop context.CancelFunc

	ctx   context.Context //nolint:containedctx // it is that of the round trip, for the hooks that are given none
	trace httptrace.ClientTrace
	// conn is the connection that the request got, watched the one below TLS;
	// written and received are what had passed until then. Set before RoundTrip
	// returns.
	conn              net.Conn
	watched           *Conn
	written, received int64
	kept              bool
	gotten            int
	// dialled is set when a connection begins to be made for it.
	dialled atomic.Bool
	// began is set when HTTP/1 has begun, and ended, to write the request.
	began   atomic.Bool
	verdict atomic.Uint32
}

// What became of the wish to send.
const (
	undecided uint32 = iota
	left
	withheld // the right is gone
	unfit    // something came unasked on the connection, or its end
)

var (
	errWithheld = errors.New("the claim on the call ran out before its request left")
	errUnfit    = errors.New("something came unasked on the kept connection")
)

// Watch returns the context for the round trip, which reports to the trip.
func (t *Trip) Watch(ctx context.Context) context.Context {
	t.ctx = ctx
	t.trace.GotConn = t.gotConn
	t.trace.WroteRequest = t.wroteRequest
	return httptrace.WithClientTrace(context.WithValue(ctx, tripKey{}, t), &t.trace)
}

// tripKey is that of the trip in the context of its round trip, which net/http dials with. A hook
// of httptrace for the same would cost each request what only a dial needs.
type tripKey struct{}

// gotConn runs before anything is written, and keeps the request waiting.
func (t *Trip) gotConn(info httptrace.GotConnInfo) {
	t.gotten++
	t.conn, t.watched, t.kept = info.Conn, unwrap(info.Conn), info.Reused
	if t.watched != nil {
		t.written = t.watched.written.Load()
		t.watched.serves.Store(true)
	}
	switch shared := speaksHTTP2(info.Conn, t.watched); {
	case shared || t.watched == nil:
		t.onlyAsk(shared)
	case info.Reused:
		t.takeKept()
	default:
		t.watched.waiting.Store(t)
	}
}

// takeKept takes a connection that has served before.
func (t *Trip) takeKept() {
	received, ok := t.watched.listens(t.ctx)
	if !ok {
		t.verdict.Store(unfit)
		_ = t.watched.Close() // so that nothing is written to it
		return
	}
	t.received = received
	t.watched.waiting.Store(t)
}

func (t *Trip) wroteRequest(httptrace.WroteRequestInfo) { t.began.Store(true) }

// onlyAsk asks for the right to send where no write can be watched.
func (t *Trip) onlyAsk(shared bool) {
	if t.held() {
		t.verdict.Store(left)
		return
	}
	t.verdict.Store(withheld)
	if t.Stop != nil {
		t.Stop()
	}
	if !shared {
		_ = t.conn.Close() // what nobody else uses
	}
}

// leave decides whether the request may leave, right before its first byte.
func (t *Trip) leave(c *Conn) error {
	if t.verdict.Load() == undecided {
		verdict := t.judge(c)
		failpoint.Hit(failpoint.RequestLeaving)
		t.verdict.CompareAndSwap(undecided, verdict)
	}
	switch t.verdict.Load() {
	case withheld:
		return errWithheld
	case unfit:
		return errUnfit
	default:
		return nil
	}
}

func (t *Trip) judge(c *Conn) uint32 {
	switch {
	case t.kept && c.heard(t.received):
		return unfit
	case !t.held():
		return withheld
	default:
		return left
	}
}

func (t *Trip) held() bool { return t.Right == nil || t.Right.Held() }

// Fate is what became of a trip, once its RoundTrip has returned.
type Fate uint8

const (
	// Underway: the request left, unless Wrote says otherwise, and what
	// RoundTrip returned is about it.
	Underway Fate = iota
	// Withheld: the right to send was gone before the first byte. Nothing left.
	Withheld
	// Unfit: the connection was not fit for a request, and is closed. Nothing
	// left, and what RoundTrip returned, a response maybe, is not about the
	// request, which may be sent over another connection.
	Unfit
)

// MaxUnfit is how many connections in a row a request may find Unfit before it is
// given up. Each of them is closed, and nothing was written to it.
const MaxUnfit = 64

// Fate tells what became of the trip. err is what RoundTrip returned.
func (t *Trip) Fate(err error) Fate {
	if t.watched != nil && (err == nil || t.kept && t.watched.closed.Load()) {
		// Who is answered without having said a word was not meant. Who finds a
		// kept connection closed, and not by itself, has no answer to expect.
		t.verdict.CompareAndSwap(undecided, unfit)
	}
	switch t.verdict.Load() {
	case withheld:
		return Withheld
	case unfit:
		_ = t.watched.Close() // for the most part it is closed already
		return Unfit
	default:
		return Underway
	}
}

// Waited reports, once RoundTrip has failed, that the request has only waited for its turn:
// it got no connection, and none was being made for it.
func (t *Trip) Waited() bool { return t.gotten == 0 && !t.dialled.Load() }

// Wrote reports, once RoundTrip has failed, whether any of the request may have
// been sent. It relies on HTTP/1 round trips returning an error only after
// their writer has ended (persistConn.mapRoundTripError), and on a connection
// serving one of them at a time. For HTTP/2 neither holds.
func (t *Trip) Wrote() bool {
	switch {
	case t.gotten == 0:
		return false
	case t.gotten > 1 || speaksHTTP2(t.conn, t.watched):
		return true
	case !t.began.Load():
		return false
	}
	// A TLS connection says goodbye when it closes, which counts as written.
	return t.watched == nil || t.watched.written.Load() != t.written
}
