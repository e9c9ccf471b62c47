package shared

import (
	"context"
	"errors"
	"fmt"
	"net/rpc"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// service is the name under which a holder answers. Processes that would not understand each
// other have another number there.
const service = "Sidecall4"

// Question is a request: the one member that is there.
type Question struct {
	Admit    *dedupe.Request
	Settle   *dedupe.Settlement
	Renew    *dedupe.Renewal
	Note     *dedupe.Note
	ListOpen bool
	From     string // of ListOpen: gob sends no pointer to an empty text
	Find     *dedupe.Search
	Output   *dedupe.ValueKey // tenant and name
	Now      bool
	Ping     bool
	For      time.Duration // how long the guest waits for the answer; 0: it does not say
}

// Answer is what becomes of it: the members that the request is answered with, or why it failed.
type Answer struct {
	Admission dedupe.Admission
	Verdict   dedupe.SettleVerdict
	Record    dedupe.Record
	Restored  bool
	Known     dedupe.Known
	Page      dedupe.Page
	Output    dedupe.Output
	Now       time.Time
	Failed    *failure
}

// do asks the store where it is.
func (q *Question) do(ctx context.Context, at dedupe.Store) (a Answer, err error) {
	switch {
	case q.Admit != nil:
		a.Admission, err = at.Admit(ctx, *q.Admit)
	case q.Settle != nil:
		a.Verdict, err = at.Settle(ctx, *q.Settle)
	case q.Renew != nil:
		a.Record, a.Restored, err = at.Renew(ctx, *q.Renew)
	case q.Note != nil:
		a.Known, err = at.Note(ctx, *q.Note)
	case q.ListOpen:
		a.Page, err = at.ListOpen(ctx, q.From)
	case q.Find != nil:
		a.Page, err = at.Find(ctx, *q.Find)
	case q.Output != nil:
		a.Output, err = at.Output(ctx, q.Output.Tenant, q.Output.Name)
	case q.Now:
		a.Now, err = at.Now(ctx)
	case q.Ping:
		err = at.Ping(ctx)
	default:
		err = fmt.Errorf("%w: a request that this version does not know", dedupe.ErrInvalid)
	}
	return a, err
}

// errGone is that the holder has ended, or is about to: nothing is known of the request.
var errGone = errors.New("the process that has the store has ended")

// ask asks a holder. errGone is that it does not answer any more.
func ask(ctx context.Context, holder *rpc.Client, q Question) (Answer, error) {
	end, _ := ctx.Deadline() // of which every request has one
	q.For = time.Until(end)
	var a Answer
	asked := holder.Go(service+".Ask", q, &a, make(chan *rpc.Call, 1))
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
		_ = holder.Close() // it is broken
		return Answer{}, fmt.Errorf("%w: %w", errGone, errors.Join(asked.Error, err))
	}
	return a, err
}

// known are the errors of a store that a caller may tell apart, by their place here.
var known = [...]error{
	dedupe.ErrNoOutput, dedupe.ErrClosed, dedupe.ErrInvalid, dedupe.ErrCorrupt, dedupe.ErrUnasked, dedupe.ErrLayout,
	dedupe.ErrFull, dedupe.ErrUnkept, dedupe.ErrPanic,
}

// failure is an error of the holder, as it is sent.
type failure struct {
	Text string
	Is   []int  // of known
	File string // of a store that has failed
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
	if failed, ok := errors.AsType[*dedupe.FailedError](err); ok {
		f.File, f.Text = failed.File, failed.Cause.Error()
	}
	return f
}

// err is the error as it arrived; nil for none.
func (f *failure) err() error {
	switch {
	case f == nil:
		return nil
	case f.File != "":
		return &dedupe.FailedError{File: f.File, Cause: f}
	}
	return f
}

func (f *failure) Error() string { return f.Text }

// Unwrap returns what it is, among what can be told apart.
func (f *failure) Unwrap() []error {
	var all []error
	for _, i := range f.Is {
		if i >= 0 && i < len(known) {
			all = append(all, known[i])
		}
	}
	return all
}
