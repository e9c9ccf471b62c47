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
	from, to    time.Time // when it may be done
	read, texts []string  // rows as they were believed to be, and what is written
}

func parseSent(words []string) sent {
	keys, err := strconv.Atoi(words[2])
	if err != nil {
		panic(err)
	}
	args := words[3+keys:]
	instant := func(at int) time.Time {
		return dedupe.Instant(int64(binary.BigEndian.Uint64([]byte(args[0][at:]))))
	}
	read := 1 + int(args[0][16])
	return sent{from: instant(0), to: instant(8), read: args[1:read], texts: args[read:]}
}

// stepServer is a fake that does steps whose time is right, and tells others the time.
type stepServer struct {
	*fake
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
		step, now := parseSent(words), time.Now()
		s.sent = append(s.sent, step)
		switch {
		case s.error != "":
			return "-" + s.error + "\r\n"
		case now.Before(step.from) || now.After(step.to):
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

// A step may be done later than it was decided: a lease that it gives is long enough all
// the same, whenever that is.
func TestALeaseIsLongEnoughWheneverItsStepIsDone(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{2 * time.Millisecond, 400 * time.Millisecond, time.Minute} {
		server := startStepServer(t)
		s := open(t, Options{Addrs: []string{server.addr}})
		check := func(what string, until time.Time) {
			t.Helper()
			if least := server.last().to.Add(lease); until.Before(least) {
				t.Errorf("%s for %v may be done at %v, and ends at %v", what, lease, server.last().to, until)
			}
		}
		written := func(what string) {
			t.Helper()
			stored, err := dedupe.DecodeSealed([]byte(server.last().texts[0]))
			if err != nil {
				t.Fatal(err)
			}
			check(what, stored.LeaseUntil)
		}
		req := request("x", tool.Keyed)
		req.Lease = lease
		if a, err := s.Admit(t.Context(), req); err != nil || a.Verdict != dedupe.Won {
			t.Fatal(a.Verdict, err)
		}
		written("a claim")
		if ok, err := s.Renew(t.Context(), req.Key, req.Owner, 1, lease); err != nil || !ok {
			t.Fatal(ok, err)
		}
		written("a renewal")
		back := dedupe.Restoration{Key: req.Key, Lease: lease, Retention: time.Hour, Claim: dedupe.Record{Epoch: 1, Owner: "owner", Effect: tool.Keyed}}
		back.Key.ID = "y"
		if _, ok, err := s.Restore(t.Context(), back); err != nil || !ok {
			t.Fatal(ok, err)
		}
		written("a restoration")
		bid := dedupe.Bid{Instance: "shop", Token: "mine", TTL: lease, Keep: time.Hour}
		if _, after, _, err := s.Bid(t.Context(), bid); err != nil {
			t.Fatal(err)
		} else {
			check("a tenure", after.Until)
		}
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
	c.sent, c.reply = time.Now(), []any{told.UnixMilli(), "x"}
	c.hear(l)
	l.clock.set(told.Add(-2*time.Hour), time.Now())
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
		c.sent, c.reply = time.Now(), []any{time.Now().UnixMilli(), "told"}
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
	if len(l.rows) != mostRows || l.rows["long"].text != "" || l.rows[last].text != "x" {
		t.Errorf("it remembers %d rows, and of the last %q", len(l.rows), l.rows[last].text)
	}
	if l.expect(row{key: last, text: ""}); len(l.rows) != mostRows-1 {
		t.Errorf("it remembers %d rows, one of which is none", len(l.rows))
	}
}
