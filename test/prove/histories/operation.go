package histories

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// Never is the Return of an operation that may take effect at any later time,
// or not at all.
const Never = math.MaxInt64

// Kind says what an operation asks of the store.
type Kind uint8

// The requests of a dedupe.Store, and the end of one incarnation of a store
// with the start of the next.
const (
	Admit Kind = iota + 1
	Settle
	Renew
	Lookup
	Close // a call that its conversation answers
	Reopen
	end // of the history
)

var kindNames = [...]string{Admit: "admit", Settle: "settle", Renew: "renew", Lookup: "lookup", Close: "close", Reopen: "reopen", end: "end"}

// Operation is one request to a store and what was heard of it.
type Operation struct {
	// History, Client and Seq name the operation; Key is the key within the
	// history. A Reopen concerns every key.
	History, Client, Seq, Key int
	// Call and Return are nanoseconds of CLOCK_MONOTONIC, which all processes of
	// a host share: before the request was made, and after its answer was heard.
	// Return is Never for an operation without an answer.
	Call, Return int64
	// behind is that of the history, in nanoseconds.
	behind int64
	// Sends is how often the store may have sent the request, beyond once.
	Sends int

	Kind  Kind
	Owner string
	// Content stands for tool and fingerprint.
	Content  byte
	Effect   tool.Effect
	Epoch    int64
	To       dedupe.State // of a Settle
	Resolves bool
	// Hold is for how long an Admit, or a Settle by the owner, has a person asked; 0 for not at
	// all. Standing: only what is held already. Only: nothing is to be claimed. Approval is what a
	// person says who allows it.
	Hold     time.Duration
	Standing bool
	Only     bool
	Approval string
	Attempts int
	Result   string
	// Started is when a claim that is restored was made, or a call that is closed was looked
	// at, as the store has told it.
	Started int64
	// Lease and Retention are those of the request.
	Lease, Retention time.Duration

	// Heard says that there was an answer; without it nothing below counts, but
	// for Error.
	Heard   bool
	Verdict dedupe.Verdict // of an Admit
	OK      bool           // of a Settle: Settled; of a Renew: restored; of a Close: closed
	Record  Record         // of an Admit, a Lookup or a Renew
	Error   string
	// Broken is an error that the store must never answer here.
	Broken bool
}

// Record is a record as a store told it. Instants are nanoseconds since 1970 on
// the store's clock; 0 is none.
type Record struct {
	State                    dedupe.State
	Epoch                    int64
	Owner                    string
	Content                  byte
	Effect                   tool.Effect
	Started, Finished, Lease int64
	Attempts                 int
	Result                   string
	Approval                 string
}

// told converts what a store answers.
func told(r dedupe.Record) Record {
	out := Record{
		State: r.State, Epoch: r.Epoch, Owner: r.Owner, Effect: r.Effect, Attempts: r.Attempts, Result: string(r.Result),
		Started: instant(r.StartedAt), Finished: instant(r.FinishedAt), Lease: instant(r.LeaseUntil), Approval: string(r.Approval),
	}
	if r.State != dedupe.Absent {
		out.Content = contentOf(r.Tool, r.Fingerprint)
	}
	return out
}

func instant(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Contents differ in the tool, or in the arguments.
const contents = 3

func toolOf(content byte) string { return [contents]string{"refund", "refund", "charge"}[content] }

func fingerprintOf(content byte) [32]byte {
	return [contents][32]byte{{1, 2, 3}, {9, 2, 3}, {1, 2, 3}}[content]
}

// contentOf is the content of a record; one that no request has ever had is 255.
func contentOf(name string, fingerprint [32]byte) byte {
	for c := range byte(contents) {
		if toolOf(c) == name && fingerprintOf(c) == fingerprint {
			return c
		}
	}
	return 255
}

// String describes the operation in one line.
func (o *Operation) String() string {
	var b strings.Builder
	switch o.Kind {
	case Admit:
		fmt.Fprintf(&b, "admit %s content=%d %v lease=%v hold=%v standing=%v only=%v", o.Owner, o.Content, o.Effect, o.Lease, o.Hold, o.Standing, o.Only)
	case Settle:
		word := "settle"
		if o.Resolves {
			word = "resolve"
		}
		fmt.Fprintf(&b, "%s %s@%d %v %q hold=%v %q", word, o.Owner, o.Epoch, o.To, o.Result, o.Hold, o.Approval)
	case Renew:
		fmt.Fprintf(&b, "renew %s@%d %v lease=%v", o.Owner, o.Epoch, o.Effect, o.Lease)
	case Close:
		fmt.Fprintf(&b, "close %q", o.Result)
	case Lookup, Reopen, end:
		b.WriteString(kindNames[o.Kind])
	default:
		fmt.Fprintf(&b, "kind(%d)", uint8(o.Kind))
	}
	b.WriteString(" → ")
	b.WriteString(o.heard())
	return b.String()
}

// renewed reports that the answer to a Renew is that its owner has the claim.
func (o *Operation) renewed() bool {
	return o.Kind == Renew && o.Record.State == dedupe.Claimed && o.Record.Owner == o.Owner && o.Record.Epoch == o.Epoch
}

func (o *Operation) heard() string {
	switch {
	case !o.Heard:
		return "? " + o.Error
	case o.Kind == Admit:
		return fmt.Sprintf("%v %v", o.Verdict, o.Record)
	case o.Kind == Lookup:
		return o.Record.String()
	case o.Kind == Renew:
		return fmt.Sprintf("%t %v", o.OK, o.Record)
	case o.Kind == Reopen:
		return "open"
	default:
		return fmt.Sprint(o.OK)
	}
}

// String describes the record in a few words; instants are milliseconds, of
// which the last six digits are told.
func (r Record) String() string {
	if r.State == dedupe.Absent {
		return "absent"
	}
	return fmt.Sprintf("{%v %s@%d content=%d %v started=%s finished=%s lease=%s attempts=%d %q %q}",
		r.State, r.Owner, r.Epoch, r.Content, r.Effect, brief(r.Started), brief(r.Finished), brief(r.Lease), r.Attempts, r.Result, r.Approval)
}

func brief(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return fmt.Sprintf("%06d.%03d", ns/int64(time.Millisecond)%1_000_000, ns/int64(time.Microsecond)%1000)
}
