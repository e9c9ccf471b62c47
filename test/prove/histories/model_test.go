package histories

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// A script is a history in which one operation follows the other, a millisecond
// each, on a clock that begins at 1 s. Instants in records are milliseconds.
type script struct {
	ops []Operation
	now int64 // milliseconds
}

const day = 24 * time.Hour

func ms(n int64) int64 { return n * int64(time.Millisecond) }

func (s *script) add(op Operation) *script {
	if s.now == 0 {
		s.now = 1000
	}
	op.Client, op.Seq, op.Heard = 1, len(s.ops), true
	op.Call, op.Return = ms(s.now), ms(s.now)+1
	s.now++
	s.ops = append(s.ops, op)
	return s
}

func (s *script) wait(n int64) *script { s.now += n; return s }

// last changes the operation added last.
func (s *script) last(change func(*Operation)) *script {
	change(&s.ops[len(s.ops)-1])
	return s
}

func (s *script) admit(owner string, effect tool.Effect, lease time.Duration, v dedupe.Verdict, r Record) *script {
	return s.add(Operation{Kind: Admit, Owner: owner, Effect: effect, Lease: lease, Retention: day, Verdict: v, Record: r})
}

func (s *script) settle(owner string, epoch int64, to dedupe.State, result string, ok bool) *script {
	return s.add(Operation{Kind: Settle, Owner: owner, Epoch: epoch, To: to, Result: result, OK: ok, Retention: day})
}

func (s *script) resolve(owner string, epoch int64, to dedupe.State, ok bool) *script {
	return s.settle(owner, epoch, to, "", ok).last(func(o *Operation) { o.Resolves = true })
}

// renew is told a record; it restores nothing.
func (s *script) renew(owner string, epoch int64, r Record) *script {
	return s.add(Operation{Kind: Renew, Owner: owner, Epoch: epoch, Lease: time.Hour, Retention: day, Record: r})
}

// renewed is a claim that is renewed at the script's next instant.
func (s *script) renewed(r Record) Record {
	r.Lease = ms(max(s.now, 1000)) + int64(time.Hour)
	return r
}

func (s *script) lookup(r Record) *script { return s.add(Operation{Kind: Lookup, Record: r}) }

// claim is the record of a claim that is made at the script's next instant.
func (s *script) claim(owner string, epoch int64, effect tool.Effect, lease time.Duration) Record {
	now := max(s.now, 1000)
	return Record{State: dedupe.Claimed, Epoch: epoch, Owner: owner, Effect: effect, Started: ms(now), Lease: ms(now) + int64(lease)}
}

// asks is an admit that has a person asked first.
func (s *script) asks(owner string, how time.Duration, v dedupe.Verdict, r Record) *script {
	return s.admit(owner, once, time.Hour, v, r).last(func(o *Operation) { o.Hold = how })
}

// only makes an admit one that only asks.
func only(o *Operation) { o.Only = true }

// allow is a person's approval of the hold of alice.
func (s *script) allow(ok bool) *script {
	return s.resolve("alice", 0, dedupe.Held, ok).last(func(o *Operation) { o.Approval = "ada" })
}

// held begins a script with a hold of alice's.
func held(how time.Duration) (*script, Record) {
	s := &script{now: 1000}
	r := Record{State: dedupe.Held, Owner: "alice", Effect: once, Started: ms(1000), Lease: ms(1000) + int64(how), Result: asked}
	return s.asks("alice", how, dedupe.AwaitsApproval, r), r
}

// allowed is a claim of what was approved, at the script's next instant.
func (s *script) allowed(owner string) Record {
	r := s.claim(owner, 1, once, time.Hour)
	r.Approval = "ada"
	return r
}

func ended(r Record, as dedupe.State, at int64, result string) Record {
	r.State, r.Finished, r.Lease, r.Result = as, ms(at), 0, result
	return r
}

const (
	once   = tool.NonIdempotent
	repeat = tool.Idempotent
	brief5 = 5 * time.Millisecond
)

// claimed begins a script with a claim of alice's.
func claimed(effect tool.Effect, lease time.Duration) (*script, Record) {
	s := &script{}
	r := s.claim("alice", 1, effect, lease)
	return s.admit("alice", effect, lease, dedupe.Won, r), r
}

func check(t *testing.T, s *script) error {
	t.Helper()
	return Check(History{Name: "script", Keys: 1, Operations: s.ops}, t.TempDir())
}

// TestAllowed: histories as the table has them.
func TestAllowed(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*script{
		"a call and its replay": func() *script {
			s, r := claimed(once, time.Hour)
			s.admit("bob", once, time.Hour, dedupe.InFlight, r).settle("alice", 1, dedupe.Done, "ok", true)
			return s.admit("bob", once, time.Hour, dedupe.Replay, ended(r, dedupe.Done, 1002, "ok"))
		}(),
		"a lease that runs out": func() *script {
			s, r := claimed(once, brief5)
			s.wait(20)
			s.admit("bob", once, time.Hour, dedupe.OutcomeUnknown, ended(r, dedupe.Unknown, s.now, ""))
			return s.settle("alice", 1, dedupe.Done, "late", true).settle("alice", 1, dedupe.Done, "other", false)
		}(),
		"a call that may be repeated": func() *script {
			s, _ := claimed(repeat, brief5)
			s.wait(20)
			r := s.claim("bob", 2, repeat, time.Hour)
			s.admit("bob", repeat, time.Hour, dedupe.Won, r)
			s.settle("alice", 1, dedupe.Done, "late", false).renew("alice", 1, r)
			return s.renew("bob", 2, s.renewed(r))
		}(),
		"a resolution": func() *script {
			s, _ := claimed(once, brief5)
			s.resolve("alice", 1, dedupe.NotRun, false).wait(20).resolve("alice", 1, dedupe.NotRun, true)
			return s.admit("bob", once, time.Hour, dedupe.Won, s.claim("bob", 2, once, time.Hour)).resolve("alice", 1, dedupe.Done, false)
		}(),
		"a reopened store": func() *script {
			s, r := claimed(once, time.Hour)
			s.add(Operation{Kind: Reopen})
			return s.admit("bob", once, time.Hour, dedupe.OutcomeUnknown, ended(r, dedupe.Unknown, s.now-1, ""))
		}(),
		"a request without an answer": func() *script {
			s := &script{}
			s.admit("alice", once, time.Hour, 0, Record{}).last(func(o *Operation) { o.Heard, o.Return = false, Never })
			r := s.claim("alice", 1, once, time.Hour)
			r.Started, r.Lease = ms(1000), ms(1000)+int64(time.Hour)
			return s.admit("bob", once, time.Hour, dedupe.InFlight, r).settle("alice", 0, dedupe.NotRun, "", true)
		}(),
		"a request that comes late, after its claim was given back": func() *script {
			s, r := claimed(once, time.Hour)
			r = ended(r, dedupe.NotRun, s.now, "")
			s.settle("alice", 0, dedupe.NotRun, "", true).admit("alice", once, time.Hour, dedupe.InFlight, r)
			return s.admit("bob", once, time.Hour, dedupe.Won, s.claim("bob", 2, once, time.Hour))
		}(),
		"an owner that says after an observer that nobody knows": func() *script {
			s, r := claimed(once, brief5)
			s.wait(20)
			s.admit("bob", once, time.Hour, dedupe.OutcomeUnknown, ended(r, dedupe.Unknown, s.now, ""))
			r = ended(r, dedupe.Unknown, s.now, "look first")
			s.settle("alice", 1, dedupe.Unknown, "look first", true).settle("alice", 1, dedupe.Unknown, "other", true)
			return s.admit("bob", once, time.Hour, dedupe.OutcomeUnknown, r)
		}(),
		"a tool that is declared anew": func() *script {
			s, r := claimed(repeat, time.Hour)
			s.settle("alice", 1, dedupe.NotRun, "may have run", true).last(func(o *Operation) { o.Attempts = 1 })
			r = ended(r, dedupe.Unknown, s.now, "")
			r.Effect, r.Attempts = once, 1 // it counts as sent
			s.admit("bob", once, time.Hour, dedupe.OutcomeUnknown, r).resolve("alice", 1, dedupe.NotRun, true)
			return s.admit("bob", once, time.Hour, dedupe.Won, s.claim("bob", 2, once, time.Hour))
		}(),
		"a held call that is approved": func() *script {
			s, r := held(time.Hour)
			s.asks("bob", time.Hour, dedupe.AwaitsApproval, r).allow(true)
			r.Approval, r.Lease = "ada", ms(s.now-1)+int64(time.Hour)
			s.lookup(r).asks("alice", time.Hour, dedupe.AwaitsApproval, r)
			return s.asks("bob", time.Hour, dedupe.Won, s.allowed("bob")).allow(false)
		}(),
		"a held call that is denied": func() *script {
			s, r := held(time.Hour)
			s.resolve("alice", 0, dedupe.Done, true)
			return s.asks("bob", time.Hour, dedupe.Replay, ended(r, dedupe.Done, s.now-1, ""))
		}(),
		"a hold that is over": func() *script {
			s, r := held(brief5)
			s.wait(20).lookup(ended(r, dedupe.NotRun, 1005, "")).allow(false)
			again := r
			again.Owner, again.Started, again.Lease = "bob", ms(s.now), ms(s.now)+int64(time.Hour)
			return s.asks("bob", time.Hour, dedupe.AwaitsApproval, again)
		}(),
		"a claim that is held": func() *script {
			s, r := claimed(once, time.Hour)
			r.State, r.Started, r.Lease, r.Result = dedupe.Held, ms(s.now), ms(s.now)+int64(time.Minute), asked
			s.settle("alice", 1, dedupe.Held, asked, true).last(func(o *Operation) { o.Hold = time.Minute })
			s.asks("bob", time.Hour, dedupe.AwaitsApproval, r).last(func(o *Operation) { o.Standing = true })
			return s.admit("bob", once, time.Hour, dedupe.Won, s.claim("bob", 2, once, time.Hour))
		}(),
		"a call that is asked about": func() *script {
			s := &script{now: 1000}
			s.asks("bob", 0, dedupe.MayRun, Record{}).last(only)
			r := Record{State: dedupe.Held, Owner: "alice", Effect: once, Started: ms(s.now), Lease: ms(s.now) + int64(time.Hour), Result: asked}
			s.asks("alice", time.Hour, dedupe.AwaitsApproval, r).last(only).allow(true)
			r.Approval, r.Lease = "ada", ms(s.now-1)+int64(time.Hour)
			s.asks("bob", time.Hour, dedupe.MayRun, r).last(only).lookup(r)
			return s.asks("bob", time.Hour, dedupe.Won, s.allowed("bob"))
		}(),
		"one whose hold is over": func() *script {
			s, r := held(brief5)
			s.wait(20).asks("bob", time.Hour, dedupe.MayRun, ended(r, dedupe.NotRun, 1005, "")).last(func(o *Operation) { o.Only, o.Standing = true, true })
			return s.lookup(ended(r, dedupe.NotRun, 1005, ""))
		}(),
		"a forgotten call": func() *script {
			s, _ := claimed(once, brief5)
			s.last(func(o *Operation) { o.Retention = 10 * time.Millisecond }).wait(30)
			return s.admit("bob", once, time.Hour, dedupe.Won, s.claim("bob", 1, once, time.Hour))
		}(),
	} {
		if err := check(t, s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRefused: one broken promise each.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*script{
		"a running lease is taken": func() *script {
			s, _ := claimed(repeat, time.Hour)
			return s.admit("bob", repeat, time.Hour, dedupe.Won, s.claim("bob", 2, repeat, time.Hour))
		}(),
		"what may have run runs again although it may no longer be repeated": func() *script {
			s, _ := claimed(repeat, time.Hour)
			s.settle("alice", 1, dedupe.NotRun, "", true).last(func(o *Operation) { o.Attempts = 1 })
			return s.admit("bob", once, time.Hour, dedupe.Won, s.claim("bob", 2, once, time.Hour))
		}(),
		"the owner's words for an unknown call are dropped": func() *script {
			s, r := claimed(once, brief5)
			s.wait(20)
			r = ended(r, dedupe.Unknown, s.now, "")
			s.admit("bob", once, time.Hour, dedupe.OutcomeUnknown, r).settle("alice", 1, dedupe.Unknown, "look first", true)
			return s.admit("bob", once, time.Hour, dedupe.OutcomeUnknown, r)
		}(),
		"who gave it back claims it again": claim2(func(s *script) {
			s.settle("alice", 1, dedupe.NotRun, "", true)
			s.admit("alice", once, time.Hour, dedupe.Won, s.claim("alice", 2, once, time.Hour))
		}),
		"an expired non_idempotent claim is taken over": func() *script {
			s, _ := claimed(once, brief5)
			s.wait(20)
			return s.admit("bob", once, time.Hour, dedupe.Won, s.claim("bob", 2, once, time.Hour))
		}(),
		"a held call runs unasked": func() *script {
			s, _ := held(time.Hour)
			return s.asks("bob", time.Hour, dedupe.Won, s.claim("bob", 1, once, time.Hour))
		}(),
		"a call that asks runs unasked": func() *script {
			s := &script{now: 1000}
			return s.asks("bob", time.Hour, dedupe.Won, s.claim("bob", 1, once, time.Hour))
		}(),
		"who only asks claims": func() *script {
			s := &script{now: 1000}
			return s.asks("bob", 0, dedupe.Won, s.claim("bob", 1, once, time.Hour)).last(only)
		}(),
		"who only asks is told that a call may run of which a person has to be asked": func() *script {
			return (&script{now: 1000}).asks("bob", time.Hour, dedupe.MayRun, Record{}).last(only)
		}(),
		"who claims is told that it may": func() *script {
			return (&script{now: 1000}).asks("bob", 0, dedupe.MayRun, Record{})
		}(),
		"a hold that is over is approved": func() *script {
			s, _ := held(brief5)
			return s.wait(20).allow(true)
		}(),
		"an approval that is over counts": func() *script {
			s, _ := held(brief5)
			s.allow(true).wait(20)
			return s.asks("bob", time.Hour, dedupe.Won, s.allowed("bob"))
		}(),
		"an approval is lost": func() *script {
			s, r := held(time.Hour)
			return s.allow(true).asks("bob", time.Hour, dedupe.AwaitsApproval, r)
		}(),
		"it is forgotten who has approved": func() *script {
			s, _ := held(time.Hour)
			s.allow(true)
			return s.asks("bob", time.Hour, dedupe.Won, s.claim("bob", 1, once, time.Hour))
		}(),
		"other arguments than were approved run": func() *script {
			s, _ := held(time.Hour)
			s.allow(true)
			return s.asks("bob", time.Hour, dedupe.Won, s.allowed("bob")).last(func(o *Operation) { o.Content, o.Record.Content = 1, 1 })
		}(),
		"what was denied runs": func() *script {
			s, _ := held(time.Hour)
			s.resolve("alice", 0, dedupe.Done, true)
			return s.asks("bob", time.Hour, dedupe.Won, s.claim("bob", 1, once, time.Hour))
		}(),
		"another hold than was seen is approved": func() *script {
			s, _ := held(time.Hour)
			return s.allow(true).last(func(o *Operation) { o.Owner = "bob" })
		}(),
		"an epoch has two owners": func() *script {
			s, _ := claimed(repeat, brief5)
			s.wait(20)
			return s.admit("bob", repeat, time.Hour, dedupe.Won, s.claim("bob", 1, repeat, time.Hour))
		}(),
		"a superseded owner settles": func() *script {
			s, _ := claimed(repeat, brief5)
			s.wait(20)
			s.admit("bob", repeat, time.Hour, dedupe.Won, s.claim("bob", 2, repeat, time.Hour))
			return s.settle("alice", 1, dedupe.Done, "late", true)
		}(),
		"another settles":                 claim2(func(s *script) { s.settle("bob", 1, dedupe.Done, "", true) }),
		"another renews":                  claim2(func(s *script) { s.renew("bob", 1, s.renewed(s.ops[0].Record)) }),
		"another epoch settles":           claim2(func(s *script) { s.settle("alice", 2, dedupe.Done, "", true) }),
		"a running claim is resolved":     claim2(func(s *script) { s.resolve("alice", 1, dedupe.Done, true) }),
		"the owner is refused":            claim2(func(s *script) { s.settle("alice", 1, dedupe.Done, "", false) }),
		"the owner's renewal is refused":  claim2(func(s *script) { s.wait(100).renew("alice", 1, s.ops[0].Record) }),
		"the owner is told to wait":       claim2(func(s *script) { s.admit("alice", once, time.Hour, dedupe.InFlight, s.claim("alice", 1, once, 0)) }),
		"a claim is forgotten":            claim2(func(s *script) { s.lookup(Record{}) }),
		"a claim is forgotten, and taken": claim2(func(s *script) { s.admit("bob", once, day, dedupe.Won, s.claim("bob", 1, once, day)) }),
		"DONE changes": claim2(func(s *script) {
			s.settle("alice", 1, dedupe.Done, "a", true).settle("alice", 1, dedupe.Done, "b", true)
		}),
		"DONE becomes NOT_RUN": claim2(func(s *script) {
			s.settle("alice", 1, dedupe.Done, "a", true).settle("alice", 1, dedupe.NotRun, "", true)
		}),
		"a replay differs": func() *script {
			s, r := claimed(once, time.Hour)
			s.settle("alice", 1, dedupe.Done, "ok", true)
			return s.admit("bob", once, time.Hour, dedupe.Replay, ended(r, dedupe.Done, 1001, "OK"))
		}(),
		"other content changes the record": func() *script {
			s, r := claimed(once, time.Hour)
			r.Content = 1
			return s.admit("bob", once, time.Hour, dedupe.Mismatch, r).last(func(o *Operation) { o.Content = 1 })
		}(),
		"other content is not noticed": func() *script {
			s, r := claimed(once, time.Hour)
			return s.admit("bob", once, time.Hour, dedupe.InFlight, r).last(func(o *Operation) { o.Content = 1 })
		}(),
		"a reopened store leaves a claim": func() *script {
			s, r := claimed(once, time.Hour)
			s.add(Operation{Kind: Reopen})
			return s.lookup(r)
		}(),
		"a lease is longer than asked for": func() *script {
			s := &script{}
			r := s.claim("alice", 1, once, time.Hour)
			return s.admit("alice", once, time.Minute, dedupe.Won, r)
		}(),
		"a claim is older than its request": func() *script {
			s := &script{}
			r := s.claim("alice", 1, once, time.Hour)
			r.Started, r.Lease = r.Started-ms(20), r.Lease-ms(20)
			return s.admit("alice", once, time.Hour, dedupe.Won, r)
		}(),
	} {
		if err := check(t, s); err == nil || !strings.Contains(err.Error(), "not linearizable") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func claim2(then func(*script)) *script {
	s, _ := claimed(once, time.Hour)
	then(s)
	return s
}

// TestOverlap: an order may be chosen among what overlaps, and only there.
func TestOverlap(t *testing.T) {
	t.Parallel()
	history := func(overlap bool) *script {
		s, r := claimed(once, time.Hour)
		r = ended(r, dedupe.Done, 1001, "ok")
		s.lookup(r).settle("alice", 1, dedupe.Done, "ok", true)
		if overlap { // the settlement was called before the lookup answered
			s.ops[2].Call = s.ops[1].Call
		}
		s.ops[1].Client = 2
		return s
	}
	if err := check(t, history(true)); err != nil {
		t.Error(err)
	}
	if check(t, history(false)) == nil {
		t.Error("a result was seen before it was settled, and nobody noticed")
	}
}

// TestManyWithoutAnAnswer: a renewal that was sent twice, while requests were made
// that nobody answered: which of its two sendings was the first does not show
// until much later. (With a place in the order for each of the unanswered ones,
// such a history was not decided within a minute.)
func TestManyWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s, r := claimed(repeat, brief5)
	r.Lease = ms(1025) + int64(time.Hour)
	s.renew("alice", 1, r).last(func(o *Operation) { o.Return, o.Sends = ms(1030), 1 })
	r.Lease = ms(1002) + int64(time.Hour)
	s.lookup(r)
	for n := range 4 {
		s.admit(fmt.Sprint("bob", n), repeat, brief5, 0, Record{})
		s.last(func(o *Operation) { o.Client, o.Heard, o.Return, o.Sends = 2, false, Never, 2 })
		s.lookup(r)
		for client := range 3 {
			s.settle("bob", int64(client+1), dedupe.Done, "ok", false)
			s.last(func(o *Operation) { o.Client, o.Return = 3+client, o.Return+ms(4) })
		}
	}
	r.Lease = ms(1025) + int64(time.Hour)
	s.wait(20)
	s.lookup(r)
	if err := check(t, s); err != nil {
		t.Error(err)
	}
	r.Lease += ms(1)
	if err := check(t, s.lookup(r)); err == nil || !strings.Contains(err.Error(), "not linearizable") {
		t.Errorf("a lease that changes by itself: got %.200v", err)
	}
}

// TestUndecidedIsAFailure: a history that the checker does not get to the end of
// proves nothing.
func TestUndecidedIsAFailure(t *testing.T) {
	t.Parallel()
	s := &script{}
	for n := range 40 { // any order is possible, and none explains the last answer
		s.settle("alice", int64(n+1), dedupe.Done, "ok", false)
		s.last(func(o *Operation) { o.Call, o.Return, o.Client = ms(1000), ms(2000), n })
		s.admit(fmt.Sprint("owner", n), repeat, brief5, 0, Record{})
		s.last(func(o *Operation) { o.Call, o.Return, o.Client, o.Heard = ms(1000), Never, n, false })
	}
	s.now = 3000
	s.lookup(Record{State: dedupe.Done, Epoch: 1})
	err := Check(History{Name: "script", Keys: 1, Operations: s.ops, Limit: 20 * time.Millisecond}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "not decided within 20ms") {
		t.Errorf("got %v", fmt.Sprintf("%.100v", err))
	}
}

// TestFewLostRequestsAreTriedFirst: many requests without an answer could each have
// claimed a call whose record is about to be forgotten, and none did, or one.
func TestFewLostRequestsAreTriedFirst(t *testing.T) {
	t.Parallel()
	const kept = 27 * time.Millisecond
	for _, lost := range []int{0, 1} {
		s := &script{}
		r := Record{State: dedupe.Claimed, Epoch: 1, Owner: "alice", Effect: repeat, Started: ms(1000), Lease: ms(1002)}
		s.admit("alice", repeat, 2*time.Millisecond, dedupe.Won, r).last(func(o *Operation) { o.Retention = kept })
		s.settle("alice", 1, dedupe.Done, "ok", true).last(func(o *Operation) { o.Retention = kept })
		r.State, r.Finished, r.Lease, r.Result = dedupe.Done, ms(1001), 0, "ok"
		for n := range 12 {
			s.admit(fmt.Sprint("lost", n), repeat, 2*time.Millisecond, 0, Record{})
			s.last(func(o *Operation) {
				o.Call, o.Return, o.Client, o.Heard, o.Retention = ms(1002), Never, 100+n, false, kept
			})
		}
		for n := range 40 {
			s.admit(fmt.Sprint("replay", n), repeat, 2*time.Millisecond, dedupe.Replay, r)
			s.last(func(o *Operation) {
				o.Client, o.Call, o.Retention = n%5, ms(1004+int64(n)/2)+int64(n), kept
				o.Return = o.Call + ms(5) - 1 - int64(n)
			})
		}
		s.now = 1060
		after := Record{State: dedupe.Claimed, Epoch: int64(1 + lost), Owner: "bob", Effect: repeat, Started: ms(1060), Lease: ms(1062)}
		s.admit("bob", repeat, 2*time.Millisecond, dedupe.Won, after).last(func(o *Operation) { o.Retention = kept })
		if err := Check(History{Name: "script", Keys: 1, Operations: s.ops, Limit: time.Minute}, t.TempDir()); err != nil {
			t.Errorf("with %d that took effect: %.300v", lost, err)
		}
	}
}

// TestReportNamesThePicture: who reads of a violation finds the history.
func TestReportNamesThePicture(t *testing.T) {
	t.Parallel()
	err := check(t, claim2(func(s *script) { s.settle("bob", 1, dedupe.Done, "", true) }))
	for _, want := range []string{"script_key0.html", "admit alice", "settle bob@1 done"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("the report lacks %q:\n%v", want, err)
		}
	}
}
