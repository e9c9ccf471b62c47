package overload

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// slowly answers after a while, or with LATE at its deadline.
func slowly(d time.Duration) func(context.Context, int) Answer {
	return func(ctx context.Context, _ int) Answer {
		if pause(ctx, d) != nil {
			return Answer{Code: "LATE", Attempts: 1}
		}
		return Answer{Code: OK, Attempts: 1}
	}
}

func TestAnOpenLoopKeepsItsRateWhateverBecomesOfTheCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tally := Load{Call: slowly(time.Hour), For: 2 * time.Second, Deadline: time.Minute, Rate: 100, Callers: 1000}.Open(t.Context())
		if tally.Count("LATE") != 200 || tally.Total() != 200 || tally.Unsent() != 0 || tally.Attempts() != 200 {
			t.Errorf("%s, %d attempts", tally, tally.Attempts())
		}
		if got := tally.Quantile("LATE", 0.5); got != time.Minute {
			t.Errorf("latency %s, want the deadline", got)
		}
		if took := tally.End.Sub(tally.Start); took != 1990*time.Millisecond+time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}

func TestAnOpenLoopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tally := Load{Call: slowly(time.Hour), For: time.Second, Deadline: time.Minute, Rate: 100, Callers: 30}.Open(t.Context())
		if tally.Total() != 30 || tally.Unsent() != 70 {
			t.Errorf("%s", tally)
		}
	})
}

// A generator that is held up must not start the clock of a call only when it
// gets to it.
func TestLatencyCountsFromTheIntendedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := Load{Deadline: time.Minute, Call: slowly(time.Second)}
		tally := newTally(held.Deadline)
		due := time.Now()
		time.Sleep(5 * time.Second)
		held.one(t.Context(), tally, 0, due)
		if got := tally.Quantile(OK, 1); got != 6*time.Second {
			t.Errorf("latency %s, want 6s", got)
		}
	})
}

// What a generator fails to start in time is neither offered nor held against
// the one who was to answer.
func TestAGeneratorThatIsLateOffersLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := Load{Call: slowly(0), For: 2 * time.Second, Deadline: time.Second, Rate: 10, Callers: 100}
		tally := load.Open(t.Context())
		if got := tally.Offered(load.For); got != 10 {
			t.Errorf("%g per second, want 10", got)
		}
		// The next is half of its time late, the one after that a moment more.
		for n, late := range []time.Duration{load.Deadline / 2, load.Deadline/2 + 1} {
			due := tally.Start.Add(load.For)
			time.Sleep(time.Until(due.Add(late)))
			load.one(t.Context(), tally, n, due)
		}
		if tally.Total() != 21 || tally.Unsent() != 1 {
			t.Errorf("%s", tally)
		}
		if got := tally.Offered(load.For); got != 21/2.5 {
			t.Errorf("%g per second, want 21 in 2.5 s", got)
		}
	})
}

func TestAClosedLoopFindsThePeak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tally := Load{Call: slowly(100 * time.Millisecond), For: 10 * time.Second, Deadline: time.Second, Callers: 7}.Closed(t.Context())
		if got := tally.Goodput(time.Second, 9*time.Second); got != 70 {
			t.Errorf("%g per second, want 70", got)
		}
	})
}

func TestOnlyWhatWorksInTimeIsGood(t *testing.T) {
	tally := newTally(time.Second)
	for i, answer := range []struct {
		code string
		took time.Duration
	}{{OK, time.Second}, {OK, 1001 * time.Millisecond}, {"TIMEOUT", time.Millisecond}, {OK, time.Millisecond}} {
		due := tally.Start.Add(time.Duration(i) * time.Second)
		tally.add(Answer{Code: answer.code}, due, due.Add(answer.took/2), due.Add(answer.took))
	}
	if got := tally.Goodput(0, 4*time.Second); got != 0.5 {
		t.Errorf("%g per second, want 2 in 4 s", got)
	}
	if got := tally.FirstDue(OK, 1500*time.Millisecond); got != 3*time.Second {
		t.Errorf("the first after 1.5 s was due at %s", got)
	}
	if got := tally.FirstDue(OK, time.Minute); got != time.Minute+time.Hour {
		t.Errorf("after the last: %s", got)
	}
	if worked, all := tally.Worked(time.Second, 3*time.Second); worked != 1 || all != 2 {
		t.Errorf("%d of %d that were started in the two seconds worked, want 1 of 2", worked, all)
	}
	if n, which := tally.Beyond("TIMEOUT"); n != 3 || len(which) != 1 || which[0] != "3 x OK" {
		t.Errorf("%d beyond TIMEOUT: %q", n, which)
	}
	if n, which := tally.Beyond("TIMEOUT", OK); n != 0 || len(which) != 0 {
		t.Errorf("%d beyond all that there are: %q", n, which)
	}
	if got := tally.Goodput(4*time.Second, 4*time.Second); got != 0 {
		t.Errorf("%g in no time", got)
	}
	if got, want := tally.String(), "OK 3 (1 late, p50 1s, p99 1.001s)  TIMEOUT 1 (0 late, p50 1ms, p99 1ms)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if tally.Quantile("NONE", 0.5) != 0 || tally.Count("NONE") != 0 {
		t.Error("there are calls that nobody made")
	}
}

func TestALoadEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 450*time.Millisecond)
		defer cancel()
		load := Load{Call: slowly(time.Hour), For: time.Hour, Deadline: time.Hour, Rate: 10, Callers: 100}
		if tally := load.Open(ctx); tally.Total() != 5 {
			t.Errorf("%s", tally)
		}
		if tally := load.Closed(ctx); tally.Total() != 0 {
			t.Errorf("%s", tally)
		}
	})
}
