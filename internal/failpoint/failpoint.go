// Package failpoint lets a proof hurt the sidecar at an exact step of a call:
// kill it, stop it, make it panic or slow it down there.
//
// The steps are the names below. Code that has reached one says so:
//
//	failpoint.Hit(failpoint.ClaimWon)
//
// In a normal build Hit is an empty function that is compiled away, together
// with the names. In a build with the tag failpoint (Linux only) it acts on one
// environment variable:
//
//	SIDECALL_FAILPOINT=claim.won=kill@3
//
// A name, an action, and which hit of the process it is for; without @n it is
// for every one. The actions:
//
//	kill       the process ends by SIGKILL
//	stop       the process stops by SIGSTOP, until SIGCONT
//	panic      the goroutine panics
//	sleep(50)  the goroutine sleeps, milliseconds
//
// A value that cannot be understood ends the process at start: a fault that
// never happens must not pass for one that did no harm. What is done is said
// on standard error just before.
package failpoint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Name is a step of a call.
type Name string

// The steps of a call, in the order in which it reaches them.
const (
	// AdmissionUnsent: the store is about to be asked for the claim.
	AdmissionUnsent Name = "admission.unsent"
	// AdmissionDurable: the store has granted the claim, nobody has heard it.
	AdmissionDurable Name = "admission.durable"
	// ClaimWon: the claim is held, no attempt has begun.
	ClaimWon Name = "claim.won"
	// RequestUnsent: the request to the upstream is ready, and there may not be
	// a connection yet.
	RequestUnsent Name = "request.unsent"
	// RequestLeaving: the right to send was asked, and the first byte is not
	// written (HTTP/1.1). A panic here ends the process.
	RequestLeaving Name = "request.leaving"
	// ResponseHeaders: the upstream has answered, its body is not read.
	ResponseHeaders Name = "response.headers"
	// ResponseRead: the answer is read.
	ResponseRead Name = "response.read"
	// ReplyInterpreted: what the answer means is known.
	ReplyInterpreted Name = "reply.interpreted"
	// SettlementUnsent: the store is about to be told the result.
	SettlementUnsent Name = "settlement.unsent"
	// SettlementDurable: the store has the result, nobody has heard so.
	SettlementDurable Name = "settlement.durable"
	// ResultUnsent: the call is settled, the caller is about to be answered.
	ResultUnsent Name = "result.unsent"
	// ResultSent: the answer was handed to the connection.
	ResultSent Name = "result.sent"

	// CommitUnwritten: the embedded store is about to write a transaction.
	CommitUnwritten Name = "commit.unwritten"
	// CommitUnsynced: the transaction is written, and not yet on the disk.
	CommitUnsynced Name = "commit.unsynced"
	// CommitSynced: it is on the disk, and nobody was told.
	CommitSynced Name = "commit.synced"

	// RenewalUnsent: the store is about to be asked for more time.
	RenewalUnsent Name = "renewal.unsent"
	// RenewalDurable: the store has given more time, nobody has heard it.
	RenewalDurable Name = "renewal.durable"

	// DecisionUnsent: the store is about to be told what a person says of a held call.
	DecisionUnsent Name = "decision.unsent"
	// DecisionDurable: the store has it, nobody has heard so.
	DecisionDurable Name = "decision.durable"
)

// Names returns every name.
func Names() []Name {
	return []Name{
		AdmissionUnsent, AdmissionDurable, ClaimWon, RequestUnsent, RequestLeaving, ResponseHeaders,
		ResponseRead, ReplyInterpreted, SettlementUnsent, SettlementDurable, ResultUnsent, ResultSent,
		CommitUnwritten, CommitUnsynced, CommitSynced, RenewalUnsent, RenewalDurable, DecisionUnsent, DecisionDurable,
	}
}

// Env is the environment variable that a build with the tag failpoint reads.
const Env = "SIDECALL_FAILPOINT"

// fault is what is done where.
type fault struct {
	name   Name
	action string
	// sleep is the time that the action sleep takes.
	sleep time.Duration
	// at is the hit that it is for, counted from 1; 0 for every one.
	at int64
}

// parse reads the value of the environment variable.
func parse(text string) (fault, error) {
	name, rest, ok := strings.Cut(text, "=")
	if !ok {
		return fault{}, fmt.Errorf("%q: want name=action or name=action@n", text)
	}
	f := fault{name: Name(name)}
	if !slices.Contains(Names(), f.name) {
		return fault{}, fmt.Errorf("%q: no failpoint is called %q; there are %v", text, name, Names())
	}
	action, count, counted := strings.Cut(rest, "@")
	if counted {
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil || n < 1 {
			return fault{}, fmt.Errorf("%q: %q is no number of a hit; the first is 1", text, count)
		}
		f.at = n
	}
	if ms, ok := strings.CutPrefix(action, "sleep("); ok {
		n, err := strconv.ParseUint(strings.TrimSuffix(ms, ")"), 10, 31)
		if err != nil || !strings.HasSuffix(ms, ")") {
			return fault{}, fmt.Errorf("%q: want sleep(milliseconds)", text)
		}
		f.action, f.sleep = "sleep", time.Duration(n)*time.Millisecond
		return f, nil
	}
	if !slices.Contains([]string{"kill", "stop", "panic"}, action) {
		return fault{}, fmt.Errorf("%q: no action is called %q; there are kill, stop, panic and sleep(ms)", text, action)
	}
	f.action = action
	return f, nil
}
