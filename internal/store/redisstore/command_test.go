package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
)

// sent is a step as it was sent to a server.
type sent struct {
	from        time.Time // when it may be done at the earliest
	read, texts []string  // rows as they were believed to be, and what is written
}

func parseSent(words []string) sent {
	keys, err := strconv.Atoi(words[2])
	if err != nil {
		panic(err)
	}
	args := words[3+keys:]
	read := 1 + int(binary.BigEndian.Uint16([]byte(args[0][8:])))
	return sent{from: dedupe.Instant(int64(binary.BigEndian.Uint64([]byte(args[0])))), read: args[1:read], texts: args[read:]}
}

// stepServer is a fake that does steps whose time has come, and tells others the time.
type stepServer struct {
	*fake
	mu    sync.Mutex
	late  time.Duration // how long one is on its way, by its clock
	at    time.Time     // what its clock showed last
	sent  []sent
	error string // what it answers in place of that
}

func startStepServer(t *testing.T) *stepServer {
	t.Helper()
	s := &stepServer{fake: startFake(t), at: time.Now().Truncate(time.Millisecond)}
	s.answer = func(words []string) string {
		s.mu.Lock()
		defer s.mu.Unlock()
		if words[0] != "evalsha" {
			return "$-1\r\n"
		}
		step := parseSent(words)
		s.sent = append(s.sent, step)
		if now := time.Now().Truncate(time.Millisecond); now.After(s.at) {
			s.at = now
		}
		s.at = s.at.Add(s.late)
		switch {
		case s.error != "":
			return "-" + s.error + "\r\n"
		case s.at.Before(step.from):
			return fmt.Sprintf("*%d\r\n:%d\r\n%s", 1+len(step.read), s.at.UnixMilli(), strings.Repeat("$-1\r\n", len(step.read)))
		default:
			return fmt.Sprintf(":%d\r\n", s.at.UnixMilli())
		}
	}
	return s
}

func (s *stepServer) fail(with string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.error = with
}

// last is the step that was sent last, and when it was done.
func (s *stepServer) last() (sent, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[len(s.sent)-1], s.at
}

// A step may be done later than it was decided: a lease is counted from then, in what is
// stored, and in what is told.
func TestALeaseCountsFromWhenItsStepIsDone(t *testing.T) {
	t.Parallel()
	const lease = time.Minute
	server := startStepServer(t)
	server.late = time.Hour
	s := open(t, Options{Addrs: []string{server.addr}})
	check := func(what string, until time.Time) {
		t.Helper()
		if _, at := server.last(); !until.Equal(at.Add(lease)) {
			t.Errorf("%s ends %v after it was done, want %v", what, until.Sub(at), lease)
		}
	}
	stored := func(what string) {
		t.Helper()
		step, at := server.last()
		got, err := decodeRecord(stamp(step.texts[0], at))
		if err != nil {
			t.Fatal(err)
		}
		check(what+", as it is stored,", got.LeaseUntil)
	}
	req := request("x", tool.Keyed)
	req.Lease = lease
	for i, what := range []string{"a claim", "a claim that is asked for again"} {
		a, err := s.Admit(t.Context(), req)
		if err != nil || a.Verdict != dedupe.Won {
			t.Fatal(a.Verdict, err)
		}
		check(what, a.Record.LeaseUntil)
		if _, at := server.last(); i == 0 && !a.Record.StartedAt.Equal(at) {
			t.Errorf("a claim of %v started at %v", at, a.Record.StartedAt)
		}
		stored(what)
	}
	if ok, err := storetest.Renew(t.Context(), s, req.Key, req.Owner, 1, lease); err != nil || !ok {
		t.Fatal(ok, err)
	}
	stored("a renewal")
	claim := dedupe.Origin{Record: dedupe.Record{Epoch: 1, Owner: "owner", Effect: tool.Keyed}}
	back := dedupe.Renewal{Key: req.Key, Lease: lease, Retention: time.Hour, Claim: claim}
	back.Key.ID = "forgotten"
	record, ok, err := s.Renew(t.Context(), back)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	check("a restoration", record.LeaseUntil)
	stored("a restoration")
	_, after, err := s.Bid(t.Context(), dedupe.Bid{Instance: "shop", Token: "mine", TTL: lease, Keep: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	check("a tenure", after.Until)
	step, at := server.last()
	if got, err := decodeTenure(stamp(step.texts[0], at)); err != nil || !got.Until.Equal(after.Until) {
		t.Errorf("a tenure is stored as one until %v, %v", got.Until, err)
	}
}

// Of a step that the server has not answered nobody knows whether it was done: what comes
// next believes nothing of its rows.
func TestNothingIsBelievedAfterAnError(t *testing.T) {
	t.Parallel()
	server := startStepServer(t)
	s := open(t, Options{Addrs: []string{server.addr}})
	admit := func(owner string) error {
		req := request("x", tool.NonIdempotent)
		req.Owner, req.Draw.Counter = owner, "p"
		_, err := s.Admit(t.Context(), req)
		return err
	}
	believes := func(what string, record, tally string) {
		t.Helper()
		step, _ := server.last()
		if got := step.read; len(got) != 2 || !strings.Contains(got[0], record) || !strings.HasPrefix(got[1], tally) || record == "" && got[0]+got[1] != "" {
			t.Errorf("%s, the record and the tally are believed to be %q", what, got)
		}
	}
	server.fail("OOM command not allowed when used memory > 'maxmemory'.")
	if err := admit("alice"); err == nil {
		t.Fatal("no error")
	}
	server.fail("")
	if err := admit("bob"); err != nil {
		t.Fatal(err)
	}
	believes("after an error", "", "")
	if err := admit("carol"); err != nil {
		t.Fatal(err)
	}
	believes("after an answer", "bob", "1 ")
}

// What the server has said of its time holds for the step, whatever another server that
// shares the clock says meanwhile: it is not sent for ever with the wrong one.
func TestAStepCountsFromTheTimeThatItWasTold(t *testing.T) {
	t.Parallel()
	l := laneOf(Options{}, time.Time{}, time.Time{})
	asked := &seen{key: "sidecall:{x}"}
	c := asked.command()
	if !c.decide(l) {
		t.Fatal("nothing is asked")
	}
	told := time.Now().Add(time.Hour)
	c.reply = []any{told.UnixMilli(), "x"}
	c.hear(l)
	l.clock.heard(told.Add(-2 * time.Hour))
	if c.decide(l); c.rows.now.Before(told.Truncate(time.Millisecond)) {
		t.Errorf("it was told %v, and counts from %v", told, c.rows.now)
	}
	if !answered(c) || c.err != nil || asked.text != "x" {
		t.Errorf("what was told is read as %q, %v", asked.text, c.err)
	}
}

// What was only looked at is decided by the time at which that was: if it changes something
// by then, it is sent, and not told before it is done.
func TestWhatIsDecidedByALaterTimeIsSent(t *testing.T) {
	t.Parallel()
	now := dedupe.Instant(1_000_000)
	l := laneOf(Options{}, now, time.Now())
	claim := dedupe.Stored{Retention: time.Hour, Record: dedupe.Record{
		State: dedupe.Claimed, Epoch: 1, Owner: "alice", Tool: "refund", Effect: tool.Keyed, LeaseUntil: now.Add(time.Minute),
	}}
	req := dedupe.Request{Key: tool.CallID{ID: "x"}, Owner: "bob", Tool: "refund", Effect: tool.Keyed, Lease: time.Hour, Retention: time.Hour}
	name := RecordKey("", req.Key)
	l.expect(row{key: name, text: stamp(string(claim.AppendSealed(nil)), now)})
	replies := []time.Time{now.Add(time.Second), now.Add(time.Minute), now.Add(time.Minute)}
	sent := 0
	engine := answering(func(step *dedupe.Step) error {
		c := newCommand(context.Background(), name, step)
		for over := false; !over && c.decide(l); sent++ {
			c.reply = replies[sent].UnixMilli()
			over = c.hear(l)
		}
		return c.err
	})
	admit := func(verdict dedupe.Verdict, trips int) {
		t.Helper()
		before := sent
		got, err := dedupe.Machine{Engine: engine}.Admit(t.Context(), req)
		if err != nil || got.Verdict != verdict || sent-before != trips {
			t.Errorf("%v, %v after %d round trips; want %v after %d", got.Verdict, err, sent-before, verdict, trips)
		}
	}
	admit(dedupe.InFlight, 1)
	l.expect(row{key: name, text: stamp(string(claim.AppendSealed(nil)), now)})
	admit(dedupe.Won, 2)
}

// answering is an engine of which a test is the server.
type answering func(*dedupe.Step) error

func (a answering) Do(_ context.Context, step *dedupe.Step) error { return a(step) }

// laneOf is a lane to a server whose clock showed a time when it was read.
func laneOf(options Options, read, at time.Time) *lane {
	l := &lane{options: &options}
	if !read.IsZero() {
		l.clock.heard(read.Add(time.Since(at)))
	}
	return l
}

// answered reports that a command is done.
func answered(c *command) bool { return len(c.done) == 1 }

// A step whose rows are others each time comes to an end.
func TestAStepIsNotDecidedForEver(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.answer = func([]string) string { return fmt.Sprintf("*2\r\n:%d\r\n$-1\r\n", time.Now().UnixMilli()) }
	s := open(t, Options{Addrs: []string{f.addr}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if a, err := s.Admit(ctx, request("x", tool.NonIdempotent)); err == nil || ctx.Err() != nil {
		t.Errorf("got %v, %v", a.Verdict, err)
	}
	if n := f.times("evalsha"); n != maxTries*mostDecisions {
		t.Errorf("it was sent %d times, want %d", n, maxTries*mostDecisions)
	}
}

// What was told of a row counts until another step on the same way writes it: then the
// server is asked again, for that one may come to nothing.
func TestWhatIsBelievedIsNotTold(t *testing.T) {
	t.Parallel()
	l := laneOf(Options{}, time.Time{}, time.Time{})
	asked := &seen{key: "sidecall:{x}"}
	c := asked.command()
	for _, believed := range []string{"1", "2"} {
		if !c.decide(l) {
			t.Fatal("nothing is asked")
		}
		c.reply = []any{time.Now().UnixMilli(), "told"}
		c.hear(l)
		l.expect(row{key: asked.key, text: believed})
	}
	if !c.decide(l) || asked.text != "2" {
		t.Errorf("it is told %q, which nobody has said", asked.text)
	}
}

// A lane remembers a bounded number of rows, and none that is long.
func TestALaneRemembersSoManyRows(t *testing.T) {
	t.Parallel()
	l := laneOf(Options{}, time.Time{}, time.Time{})
	l.expect(row{key: "long", text: strings.Repeat("x", mostRowBytes+1)})
	for i := range 2 * mostRows {
		l.expect(row{key: fmt.Sprint(i), text: "x"})
	}
	last := fmt.Sprint(2*mostRows - 1)
	found, known := l.known([]byte(last))
	if _, long := l.known([]byte("long")); len(l.recent)+len(l.older) != 2*mostRows || long || !known || found.text != "x" {
		t.Errorf("it remembers %d rows, and of the last %q", len(l.recent)+len(l.older), found.text)
	}
	if l.expect(row{key: last, text: ""}); len(l.recent)+len(l.older) != 2*mostRows-1 {
		t.Errorf("it remembers %d rows, one of which is none", len(l.recent)+len(l.older))
	}
	l.known([]byte("0")) // what is used is kept when older ones go
	for i := range mostRows {
		l.expect(row{key: fmt.Sprint("new ", i), text: "x"})
	}
	if _, known := l.known([]byte("0")); !known || len(l.recent)+len(l.older) > 2*mostRows {
		t.Errorf("of %d rows the one that was used is known: %v", len(l.recent)+len(l.older), known)
	}
}
