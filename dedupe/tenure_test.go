package dedupe

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestBid(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	hers := Tenure{Number: 7, Token: "hers", Renewals: 3, Until: start.Add(ttl), Who: Who{Host: "her"}}
	resigned, ahead := hers, hers
	resigned.Until = time.Time{}
	ahead.Number = Millis(start) + 1000
	mine := Bid{Instance: "shop", Token: "mine", Who: Who{Host: "me"}, TTL: ttl, Keep: time.Hour}
	again, resigns, says, saysOld := mine, mine, mine, mine
	again.Number, resigns.Number, resigns.Resigns = 9, 9, true
	looks, looksAndSays := mine, mine
	looks.Looks, looksAndSays.Looks, looksAndSays.Gone = true, true, hers
	says.Gone, saysOld.Gone = hers, Tenure{Token: "hers", Renewals: 2}
	held := Tenure{Number: 9, Token: "mine", Renewals: 1, Until: start, Who: Who{Host: "me"}}
	early, late := start.Add(time.Second), start.Add(ttl)

	for _, c := range []struct {
		name   string
		tenure Tenure
		bid    Bid
		now    time.Time
		has    bool
		number int64
		until  time.Time
	}{
		{"nobody is known", Tenure{}, mine, early, true, Millis(early), early.Add(ttl)},
		{"it is forgotten", Tenure{}, again, early, true, 9, early.Add(ttl)},
		{"renewed", held, again, early, true, 9, early.Add(ttl)},
		{"renewed after its time", held, again, start.Add(time.Hour), true, 9, start.Add(time.Hour + ttl)},
		{"the answer to the first bid was lost", held, mine, early, true, 9, early.Add(ttl)},
		{"given up", held, resigns, early, true, 9, time.Time{}},
		{"another's", hers, mine, early, false, 7, hers.Until},
		{"another's, to who had it before", hers, again, late, false, 7, hers.Until},
		{"another's, to who resigns", resigned, resigns, late, false, 7, time.Time{}},
		{"its time has passed", hers, mine, late, true, Millis(late), late.Add(ttl)},
		{"it was given up", resigned, mine, early, true, Millis(early), early.Add(ttl)},
		{"its holder is gone", hers, says, early, true, Millis(early), early.Add(ttl)},
		{"its holder was gone, and has renewed it", hers, saysOld, early, false, 7, hers.Until},
		{"its time has passed, to who looks", hers, looks, late, false, 7, hers.Until},
		{"its holder is gone, to who looks", hers, looksAndSays, early, true, Millis(early), early.Add(ttl)},
		{"it was given up, to who looks", resigned, looks, early, true, Millis(early), early.Add(ttl)},
		{"a number ahead of the clock", ahead, mine, late.Add(-time.Nanosecond), false, ahead.Number, ahead.Until},
		{"and when it is over", ahead, mine, late, true, Millis(late), late.Add(ttl)},
		{"and the clock jumped back", ahead, Bid{Token: "mine", Gone: ahead, TTL: ttl}, start.Add(-time.Hour), true, ahead.Number + 1, start.Add(ttl - time.Hour)},
	} {
		next := c.tenure.Bid(c.bid, c.now)
		if (next.Token == c.bid.Token) != c.has || next.Number != c.number || !next.Until.Equal(c.until) {
			t.Errorf("%s: got %+v, want its own: %t, number %d, until %v", c.name, next, c.has, c.number, c.until)
		}
		if !c.has && next != c.tenure {
			t.Errorf("%s: it is changed to %+v", c.name, next)
		}
	}
}

func TestSucceeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		owner, other string
		want         bool
	}{
		{"@shop@2.x.1", "@shop@1.y.1", true},
		{"@shop@10.x.1", "@shop@9.y.1", true},
		{"@shop@2.x.1", "@shop@2.x.2", false},
		{"@shop@1.x.1", "@shop@2.y.1", false},
		{"@shop@2.x.1", "@shop2@1.y.1", false},
		{"@shop@2.x.1", "@@1.y.1", false},
		{"@shop@2.x.1", "shop-17.ABC.1", false}, // of a process without an instance
		{"shop-17.ABC.1", "@shop@1.y.1", false},
		{"shop-18.ABC.1", "shop-17.ABC.1", false},
		{"@shop@2", "@shop@1.y.1", false},
		{"@shop@2.x.1", "@shop@.y.1", false},
		{"@shop@2.x.1", "@shop@-1.y.1", false},
		{"@shop@2.x.1", "@shop@+1.y.1", false},
		{"", "", false},
		{"@", "@@", false},
	} {
		if got := succeeds(c.owner, c.other); got != c.want {
			t.Errorf("%q after %q: %v", c.owner, c.other, got)
		}
	}
	for _, name := range []string{"a", "a@1.b", "a%401.b", "@", "%", "%40"} {
		for _, other := range []string{"a", "a@1.b", "a%401.b", "@", "%", "%40"} {
			if got := succeeds(ownerOf(name, 2)+"x.1", ownerOf(other, 1)+"y.1"); got != (name == other) {
				t.Errorf("instance %q after %q: %v", name, other, got)
			}
		}
	}
}

// onlyTenures is a store that keeps one tenure and nothing else.
type onlyTenures struct {
	Store

	tenure Tenure
}

func (s *onlyTenures) Bid(_ context.Context, bid Bid) (before, after Tenure, err error) {
	before = s.tenure
	s.tenure = before.Bid(bid, time.Now())
	return before, s.tenure, nil
}

// A process that stood still for longer than its tenure refuses nothing when it
// goes on: it asks the store first.
func TestAProcessThatStoodStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := newLife(), &onlyTenures{}
		f := newFence(s, Options{Instance: "shop"}.withDefaults(), l)
		f.heard = func(error) {}
		f.round()
		time.Sleep(time.Minute) // nothing runs
		if err := f.check(); err == nil {
			t.Fatal("confirmed after a minute")
		}
		waited := make(chan error, 1)
		go func() { waited <- f.await(t.Context()) }()
		synctest.Wait()
		f.round()
		if err := <-waited; err != nil {
			t.Errorf("when it goes on: %v", err)
		}

		s.tenure = Tenure{Number: s.tenure.Number + 1, Token: "hers", Until: time.Now().Add(time.Hour)}
		time.Sleep(time.Minute)
		go func() { waited <- f.await(t.Context()) }()
		synctest.Wait()
		f.round()
		if err := <-waited; !errors.Is(err, ErrUnconfirmed) {
			t.Errorf("when another has succeeded it: %v", err)
		}
		if err := l.end(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
