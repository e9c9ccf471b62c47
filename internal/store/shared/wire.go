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

// Question is a request: the one member that is there.
type Question struct {
	Admit    *dedupe.Request
	Settle   *dedupe.Settlement
	Renew    *dedupe.Renewal
	Lookup   *tool.CallID
	Note     *dedupe.Note
	ListOpen bool
	From     string // of ListOpen: gob sends no pointer to an empty text
	Find     *dedupe.Search
	Output   *dedupe.Sheet // tenant and name
	Receipts *lines
	Now      bool
	Ping     bool
}

type lines struct {
	Tenant, Conversation string
	From                 int64
}

// Answer is what becomes of it: the members that the request is answered with, or why it failed.
type Answer struct {
	Admission dedupe.Admission
	Verdict   dedupe.SettleVerdict
	Record    dedupe.Record
	Restored  bool
	Known     dedupe.Known
	Calls     []listed
	Next      string
	Output    dedupe.Output
	Chain     dedupe.Chain
	Now       time.Time
	Failed    *failure
}

// listed is a dedupe.Listed whose error can be sent.
type listed struct {
	Key    tool.CallID
	Record dedupe.Record
	Failed *failure
}

// do asks the store where it is.
func (q *Question) do(ctx context.Context, at *embedded.Store) (a Answer, err error) {
	var page dedupe.Page
	switch {
	case q.Admit != nil:
		a.Admission, err = at.Admit(ctx, *q.Admit)
	case q.Settle != nil:
		a.Verdict, err = at.Settle(ctx, *q.Settle)
	case q.Renew != nil:
		a.Record, a.Restored, err = at.Renew(ctx, *q.Renew)
	case q.Lookup != nil:
		a.Record, err = at.Lookup(ctx, *q.Lookup)
	case q.Note != nil:
		a.Known, err = at.Note(ctx, *q.Note)
	case q.ListOpen:
		page, err = at.ListOpen(ctx, q.From)
	case q.Find != nil:
		page, err = at.Find(ctx, *q.Find)
	case q.Output != nil:
		a.Output, err = at.Output(ctx, q.Output.Tenant, q.Output.Name)
	case q.Receipts != nil:
		a.Chain, err = at.Receipts(ctx, q.Receipts.Tenant, q.Receipts.Conversation, q.Receipts.From)
	case q.Now:
		a.Now, err = at.Now(ctx)
	case q.Ping:
		err = at.Ping(ctx)
	default:
		err = fmt.Errorf("%w: a request that this version does not know", dedupe.ErrInvalid)
	}
	a.Next = page.Next
	for _, call := range page.Calls {
		a.Calls = append(a.Calls, listed{call.Key, call.Record, failureOf(call.Err)})
	}
	return a, err
}

func (a *Answer) page() dedupe.Page {
	page := dedupe.Page{Next: a.Next}
	for _, call := range a.Calls {
		page.Calls = append(page.Calls, dedupe.Listed{Key: call.Key, Record: call.Record, Err: call.Failed.err()})
	}
	return page
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

// Ask is a request of another process. It does not end with that process.
func (s *served) Ask(q Question, a *Answer) error {
	answer, err := q.do(context.Background(), s.store)
	*a = answer
	a.Failed = failureOf(err)
	return nil
}

// guest is the connection to a holder.
type guest struct{ client *rpc.Client }

func newGuest(conn net.Conn) *guest { return &guest{rpc.NewClient(conn)} }

func (g *guest) close() error {
	if err := g.client.Close(); err != nil && !errors.Is(err, rpc.ErrShutdown) {
		return err
	}
	return nil
}

// errGone is that the holder has ended, or is about to: nothing is known of the request.
var errGone = errors.New("the process that has the store has ended")

// ask asks a holder. errGone is that it does not answer any more.
func (g *guest) ask(ctx context.Context, q Question) (Answer, error) {
	var a Answer
	asked := g.client.Go(service+".Ask", q, &a, make(chan *rpc.Call, 1))
	select {
	case <-asked.Done:
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx) // what it is answered later is lost
	}
	if said, ok := errors.AsType[rpc.ServerError](asked.Error); ok {
		return Answer{}, fmt.Errorf("the process that has the store, another version of Sidecall, does not understand this one: %w", said)
	}
	err := a.Failed.err()
	if asked.Error != nil || errors.Is(err, dedupe.ErrClosed) {
		_ = g.close() // it is broken
		return Answer{}, fmt.Errorf("%w: %w", errGone, errors.Join(asked.Error, err))
	}
	return a, err
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
