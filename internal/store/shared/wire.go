package shared

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
)

// service is the name under which a holder answers. Processes that would not understand each
// other have another number there.
const service = "Sidecall1"

// What each request does to the store where it is.
func admit(ctx context.Context, at *embedded.Store, q dedupe.Request) (dedupe.Admission, error) {
	return at.Admit(ctx, q)
}

func settle(ctx context.Context, at *embedded.Store, q dedupe.Settlement) (dedupe.SettleVerdict, error) {
	return at.Settle(ctx, q)
}

func renew(ctx context.Context, at *embedded.Store, q dedupe.Renewal) (a renewed, err error) {
	a.Record, a.Restored, err = at.Renew(ctx, q)
	return a, err
}

func lookup(ctx context.Context, at *embedded.Store, q tool.CallID) (dedupe.Record, error) {
	return at.Lookup(ctx, q)
}

func note(ctx context.Context, at *embedded.Store, q dedupe.Note) (dedupe.Known, error) {
	return at.Note(ctx, q)
}

func listOpen(ctx context.Context, at *embedded.Store, from string) (page, error) {
	found, err := at.ListOpen(ctx, from)
	return written(found), err
}

func find(ctx context.Context, at *embedded.Store, q dedupe.Search) (page, error) {
	found, err := at.Find(ctx, q)
	return written(found), err
}

func output(ctx context.Context, at *embedded.Store, q OutputName) (dedupe.Output, error) {
	return at.Output(ctx, q.Tenant, q.Ref)
}

func receipts(ctx context.Context, at *embedded.Store, q Lines) (dedupe.Chain, error) {
	return at.Receipts(ctx, q.Tenant, q.Conversation, q.From)
}

func ping(ctx context.Context, at *embedded.Store, _ bool) (bool, error) { return true, at.Ping(ctx) }

func now(ctx context.Context, at *embedded.Store, _ bool) (time.Time, error) { return at.Now(ctx) }

type (
	renewed struct {
		Record   dedupe.Record
		Restored bool
	}
	// OutputName names a kept output.
	OutputName struct{ Tenant, Ref string }
	// Lines asks for receipts.
	Lines struct {
		Tenant, Conversation string
		From                 int64
	}
	// page is a dedupe.Page whose errors can be sent.
	page struct {
		Calls []listed
		Next  string
	}
	listed struct {
		Key    tool.CallID
		Record dedupe.Record
		Failed *failure
	}
)

func written(found dedupe.Page) page {
	p := page{Next: found.Next}
	for _, call := range found.Calls {
		p.Calls = append(p.Calls, listed{call.Key, call.Record, failureOf(call.Err)})
	}
	return p
}

func (p page) read() dedupe.Page {
	found := dedupe.Page{Next: p.Next}
	for _, call := range p.Calls {
		found.Calls = append(found.Calls, dedupe.Listed{Key: call.Key, Record: call.Record, Err: call.Failed.err()})
	}
	return found
}

// Answer is what a holder says.
type Answer[A any] struct {
	Value  A
	Failed *failure
}

// served answers the others, as net/rpc wants it.
type served struct{ store *embedded.Store }

func newServer(store *embedded.Store) *rpc.Server {
	server := rpc.NewServer()
	if err := server.RegisterName(service, &served{store}); err != nil {
		panic(err) // only a type without such methods can fail
	}
	return server
}

// answered runs a request. Its end is not that of who has asked, who may have left.
func answered[Q, A any](s *served, q Q, into *Answer[A], do func(context.Context, *embedded.Store, Q) (A, error)) error {
	value, err := do(context.Background(), s.store, q)
	into.Value, into.Failed = value, failureOf(err)
	return nil
}

// Admit, and the others likewise, is a request of the same name.
func (s *served) Admit(q dedupe.Request, a *Answer[dedupe.Admission]) error {
	return answered(s, q, a, admit)
}

// Settle is a request.
func (s *served) Settle(q dedupe.Settlement, a *Answer[dedupe.SettleVerdict]) error {
	return answered(s, q, a, settle)
}

// Renew is a request.
func (s *served) Renew(q dedupe.Renewal, a *Answer[renewed]) error { return answered(s, q, a, renew) }

// Lookup is a request.
func (s *served) Lookup(q tool.CallID, a *Answer[dedupe.Record]) error {
	return answered(s, q, a, lookup)
}

// Note is a request.
func (s *served) Note(q dedupe.Note, a *Answer[dedupe.Known]) error { return answered(s, q, a, note) }

// ListOpen is a request.
func (s *served) ListOpen(q string, a *Answer[page]) error { return answered(s, q, a, listOpen) }

// Find is a request.
func (s *served) Find(q dedupe.Search, a *Answer[page]) error { return answered(s, q, a, find) }

// Output is a request.
func (s *served) Output(q OutputName, a *Answer[dedupe.Output]) error {
	return answered(s, q, a, output)
}

// Receipts is a request.
func (s *served) Receipts(q Lines, a *Answer[dedupe.Chain]) error {
	return answered(s, q, a, receipts)
}

// Ping is a request.
func (s *served) Ping(q bool, a *Answer[bool]) error { return answered(s, q, a, ping) }

// Now is a request.
func (s *served) Now(q bool, a *Answer[time.Time]) error { return answered(s, q, a, now) }

// guest is the connection to a holder.
type guest struct{ client *rpc.Client }

func newGuest(conn net.Conn) *guest { return &guest{rpc.NewClient(conn)} }

func (g *guest) close() error {
	if err := g.client.Close(); err != nil && !errors.Is(err, rpc.ErrShutdown) {
		return err
	}
	return nil
}

// call asks a holder. errGone is that it does not answer any more.
func call[Q, A any](ctx context.Context, g *guest, method string, q Q) (A, error) {
	var a Answer[A]
	asked := g.client.Go(service+"."+method, q, &a, make(chan *rpc.Call, 1))
	select {
	case <-asked.Done:
	case <-ctx.Done():
		return *new(A), context.Cause(ctx) // what it is answered later is lost
	}
	if said, ok := errors.AsType[rpc.ServerError](asked.Error); ok {
		return *new(A), fmt.Errorf("the process that has the store, another version of Sidecall, does not understand this one: %w", said)
	}
	if asked.Error != nil || errors.Is(a.Failed.err(), dedupe.ErrClosed) {
		_ = g.close() // it is broken
		return *new(A), fmt.Errorf("%w: %w", errGone, errors.Join(asked.Error, a.Failed.err()))
	}
	return a.Value, a.Failed.err()
}

// known are the errors of a store that a caller may tell apart, by their place here.
var known = [...]error{
	dedupe.ErrNoOutput, dedupe.ErrClosed, dedupe.ErrInvalid, dedupe.ErrCorrupt, dedupe.ErrUnasked, dedupe.ErrLayout,
	dedupe.ErrFull, dedupe.ErrUnkept, dedupe.ErrPanic,
}

// failure is an error on its way.
type failure struct {
	Text string
	Is   []int // of known
	// Record is the name of a record that is Corrupt, File that of a store that has failed.
	Record, File string
}

func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error()}
	for i, one := range known {
		if errors.Is(err, one) {
			f.Is = append(f.Is, i)
		}
	}
	if corrupt, ok := errors.AsType[*dedupe.Corrupt](err); ok {
		f.Record, f.Text = corrupt.Name, corrupt.Why.Error()
	}
	if failed, ok := errors.AsType[*dedupe.FailedError](err); ok {
		f.File, f.Text = failed.File, failed.Cause.Error()
	}
	return f
}

// err is the error as it arrived; nil for none.
func (f *failure) err() error {
	if f == nil {
		return nil
	}
	said := error(&saidError{f})
	switch {
	case f.Record != "":
		return &dedupe.Corrupt{Name: f.Record, Why: said}
	case f.File != "":
		return &dedupe.FailedError{File: f.File, Cause: said}
	}
	return said
}

// saidError is an error of the holder.
type saidError struct{ *failure }

func (e *saidError) Error() string { return e.Text }

// Unwrap returns what it is, among what can be told apart.
func (e *saidError) Unwrap() []error {
	var all []error
	for _, i := range e.Is {
		if i >= 0 && i < len(known) {
			all = append(all, known[i])
		}
	}
	return all
}
