package redisstore

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
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
	late  time.Duration // how long it takes to do one
	mu    sync.Mutex
	sent  []sent
	error string // what it answers in place of that
}

func startStepServer(t *testing.T) *stepServer {
	t.Helper()
	s := &stepServer{fake: startFake(t)}
	s.answer = func(words []string) string {
		s.mu.Lock()
		defer s.mu.Unlock()
		if words[0] != "evalsha" {
			return "$-1\r\n"
		}
		step, now := parseSent(words), time.Now().Add(s.late)
		s.sent = append(s.sent, step)
		switch {
		case s.error != "":
			return "-" + s.error + "\r\n"
		case now.Before(step.from):
			return fmt.Sprintf("*%d\r\n:%d\r\n%s", 1+len(step.read), now.UnixMilli(), strings.Repeat("$-1\r\n", len(step.read)))
		default:
			return fmt.Sprintf(":%d\r\n", now.UnixMilli())
		}
	}
	return s
}

func (s *stepServer) fail(with string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.error = with
}

func (s *stepServer) last() sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[len(s.sent)-1]
}

// A step may be done later than it was decided: a lease is counted from then, in what is
// stored, and in what is told.
func TestALeaseCountsFromWhenItsStepIsDone(t *testing.T) {
	t.Parallel()
	const late, lease = time.Hour, time.Minute
	server := startStepServer(t)
	s := open(t, Options{Addrs: []string{server.addr}})
	check := func(what string, until time.Time) {
		t.Helper()
		if left := time.Until(until); left < late || left > late+lease {
			t.Errorf("%s ends in %v, want %v after it was done", what, left, lease)
		}
	}
	req := request("x", tool.Keyed)
	req.Lease = lease
	admitted := func(what string) {
		t.Helper()
		a, err := s.Admit(t.Context(), req)
		if err != nil || a.Verdict != dedupe.Won {
			t.Fatal(a.Verdict, err)
		}
		if got := a.Record.LeaseUntil.Sub(a.Record.StartedAt); what == "a claim" && got != lease {
			t.Errorf("a claim for %v", got)
		}
		check(what, a.Record.LeaseUntil)
	}
	// Its clock is read before it jumps.
	if a, err := s.Admit(t.Context(), request("before", tool.Keyed)); err != nil || a.Verdict != dedupe.Won {
		t.Fatal(a.Verdict, err)
	}
	server.mu.Lock()
	server.late = late
	server.mu.Unlock()
	admitted("a claim")
	stored := stamp(server.last().texts[0], time.Now().Add(late))
	if got, err := decodeRecord(stored); err != nil {
		t.Error(err)
	} else {
		check("what is stored", got.LeaseUntil)
	}
	admitted("a claim that is asked for again")
	if _, after, _, err := s.Bid(t.Context(), dedupe.Bid{Instance: "shop", Token: "mine", TTL: lease, Keep: time.Hour}); err != nil {
		t.Error(err)
	} else {
		check("a tenure", after.Until)
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
		req.Owner = owner
		_, err := s.Admit(t.Context(), req)
		return err
	}
	server.fail("OOM command not allowed when used memory > 'maxmemory'.")
	if err := admit("alice"); err == nil {
		t.Fatal("no error")
	}
	server.fail("")
	if err := admit("bob"); err != nil {
		t.Fatal(err)
	}
	if got := server.last().read; got[0] != "" {
		t.Errorf("the record of the call is believed to be %q", got)
	}
	if err := admit("carol"); err != nil {
		t.Fatal(err)
	}
	if got := server.last().read; !strings.Contains(got[0], "bob") {
		t.Errorf("after an answer the record is believed to be %q", got)
	}
}

// What the server has said of its time holds for the step, whatever another server that
// shares the clock says meanwhile: it is not sent for ever with the wrong one.
func TestAStepCountsFromTheTimeThatItWasTold(t *testing.T) {
	t.Parallel()
	l := &lane{clock: &clock{}}
	asked := &seen{key: "sidecall:{x}"}
	c := &command{key: asked.key, step: asked, done: make(chan struct{})}
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
	if !c.answered() || c.err != nil || asked.text != "x" {
		t.Errorf("what was told is read as %q, %v", asked.text, c.err)
	}
}

// What was told of a row counts until another step on the same way writes it: then the
// server is asked again, for that one may come to nothing.
func TestWhatIsBelievedIsNotTold(t *testing.T) {
	t.Parallel()
	l := &lane{clock: &clock{}}
	asked := &seen{key: "sidecall:{x}"}
	c := &command{key: asked.key, step: asked, done: make(chan struct{})}
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
	l := &lane{clock: &clock{}}
	l.expect(row{key: "long", text: strings.Repeat("x", mostRowBytes+1)})
	for i := range 2 * mostRows {
		l.expect(row{key: fmt.Sprint(i), text: "x"})
	}
	last := fmt.Sprint(2*mostRows - 1)
	found, known := l.known(last)
	if _, long := l.known("long"); len(l.recent)+len(l.older) != 2*mostRows || long || !known || found.text != "x" {
		t.Errorf("it remembers %d rows, and of the last %q", len(l.recent)+len(l.older), found.text)
	}
	if l.expect(row{key: last, text: ""}); len(l.recent)+len(l.older) != 2*mostRows-1 {
		t.Errorf("it remembers %d rows, one of which is none", len(l.recent)+len(l.older))
	}
	l.known("0") // what is used is kept when older ones go
	for i := range mostRows {
		l.expect(row{key: fmt.Sprint("new ", i), text: "x"})
	}
	if _, known := l.known("0"); !known || len(l.recent)+len(l.older) > 2*mostRows {
		t.Errorf("of %d rows the one that was used is known: %v", len(l.recent)+len(l.older), known)
	}
}
