package breaker

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The breaker of the tests: five failures in half a minute open it for ten
// seconds; a probe keeps its place for four.
const (
	failures     = 5
	window       = 30 * time.Second
	openFor      = 10 * time.Second
	probeTimeout = 4 * time.Second
)

// bench is a breaker with a note of its changes.
type bench struct {
	*testing.T
	*Breaker
	changes []string
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t}
	b.Breaker = New(Settings{
		Name: "shop", Failures: failures, Window: window, OpenFor: openFor, ProbeTimeout: probeTimeout,
		OnChange: func(name string, from, to State) {
			b.changes = append(b.changes, fmt.Sprintf("%s: %v → %v", name, from, to))
		},
	})
	return b
}

// run runs a test on a fresh breaker with a clock of its own.
func run(t *testing.T, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newBench(t)) })
}

// start lets a call through and leaves it without a result.
func (b *bench) start() func(Outcome) {
	b.Helper()
	done, err := b.Allow()
	if err != nil {
		b.Fatalf("refused: %v", err)
	}
	return done
}

func (b *bench) calls(n int, o Outcome) {
	b.Helper()
	for range n {
		b.start()(o)
	}
}

func (b *bench) succeed(n int) { b.Helper(); b.calls(n, Success) }
func (b *bench) fail(n int)    { b.Helper(); b.calls(n, Failure) }
func (b *bench) ignore(n int)  { b.Helper(); b.calls(n, Ignored) }

func (b *bench) refused() *OpenError {
	b.Helper()
	done, err := b.Allow()
	refusal, open := errors.AsType[*OpenError](err)
	if done != nil || !open {
		b.Fatalf("not refused: error %v", err)
	}
	return refusal
}

// refuses reports that an error is the breaker's own.
func refuses(err error) bool {
	_, open := errors.AsType[*OpenError](err)
	return open
}

func (b *bench) is(want State) {
	b.Helper()
	if got := b.State(); got != want {
		b.Fatalf("breaker is %v, want %v", got, want)
	}
}

// trip opens the breaker.
func (b *bench) trip() {
	b.Helper()
	b.fail(failures)
	b.is(Open)
}

// halfOpen opens the breaker and waits for the time of the probe.
func (b *bench) halfOpen() {
	b.Helper()
	b.trip()
	time.Sleep(openFor)
	b.is(HalfOpen)
}

func TestTripsWhenTheBackendFails(t *testing.T) {
	tests := []struct {
		name string
		do   func(b *bench)
		want State
	}{
		{"four failures are not five", func(b *bench) { b.fail(4) }, Closed},
		{"five failures in a row", func(b *bench) { b.fail(5) }, Open},
		{"ignored outcomes never trip", func(b *bench) { b.ignore(1_000) }, Closed},
		{"ignored outcomes hide no failures", func(b *bench) { b.fail(4); b.ignore(1_000); b.fail(1) }, Open},
		{"outcomes that do not exist are ignored", func(b *bench) { b.calls(1_000, 99) }, Closed},
		{"little traffic, half of it fails", func(b *bench) {
			for range 5 {
				b.succeed(1)
				b.fail(1)
			}
		}, Open},
		{"little traffic, a third of it fails", func(b *bench) {
			for range 50 {
				b.succeed(2)
				b.fail(1)
			}
		}, Closed},
		{"five in a row after five hundred successes", func(b *bench) { b.succeed(490); b.fail(5) }, Open},
		{"a busy backend fails once in ten", func(b *bench) {
			for range 1_000 {
				b.succeed(9)
				b.fail(1)
			}
		}, Closed},
		{"a busy backend has a run of bad luck", func(b *bench) { b.succeed(10_000); b.fail(20); b.succeed(1) }, Closed},
		{"a busy backend dies", func(b *bench) { b.succeed(10_000); b.fail(102) }, Open},
		{"a busy backend is not dead yet", func(b *bench) { b.succeed(10_000); b.fail(101) }, Closed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			run(t, func(b *bench) {
				test.do(b)
				b.is(test.want)
			})
		})
	}
}

func TestWindowRolls(t *testing.T) {
	t.Run("old failures are forgotten", func(t *testing.T) {
		run(t, func(b *bench) {
			b.fail(4)
			time.Sleep(window)
			b.fail(4)
			b.is(Closed)
		})
	})
	t.Run("failures within the window add up", func(t *testing.T) {
		run(t, func(b *bench) {
			for range failures {
				time.Sleep(window / failures * 9 / 10)
				b.fail(1)
			}
			b.is(Open)
		})
	})
	t.Run("failures that trickle in never do", func(t *testing.T) {
		run(t, func(b *bench) {
			for range 100 {
				b.fail(1)
				time.Sleep(window / (failures - 1))
			}
			b.is(Closed)
		})
	})
	t.Run("old successes no longer outweigh", func(t *testing.T) {
		run(t, func(b *bench) {
			b.succeed(10_000)
			time.Sleep(window)
			b.fail(5)
			b.is(Open)
		})
	})
	// The defaults of the attempt timeout and of the window are the same, so
	// every failure of a backend that hangs is as old as the window.
	t.Run("failures that took the whole window count", func(t *testing.T) {
		run(t, func(b *bench) {
			var hanging []func(Outcome)
			for range failures {
				hanging = append(hanging, b.start())
				time.Sleep(time.Second)
			}
			time.Sleep(2 * window)
			for _, done := range hanging {
				done(Failure)
				time.Sleep(time.Second)
			}
			b.is(Open)
		})
	})
}

func TestOpenRefusesForAsLongAsItSays(t *testing.T) {
	run(t, func(b *bench) {
		b.trip()
		for left := openFor; left > 0; left -= time.Second {
			refusal := b.refused()
			if want := (OpenError{Name: "shop", State: Open, RetryAfter: left}); *refusal != want {
				t.Errorf("refusal %+v, want %+v", *refusal, want)
			}
			if got := b.RetryAfter(); got != left {
				t.Errorf("RetryAfter %v, want %v", got, left)
			}
			time.Sleep(time.Second)
		}
		if got := b.RetryAfter(); got != 0 {
			t.Errorf("RetryAfter %v although a probe would be let through", got)
		}
		b.succeed(1)
		b.is(Closed)
	})
}

func TestRefusalReadsWell(t *testing.T) {
	run(t, func(b *bench) {
		b.trip()
		time.Sleep(500 * time.Millisecond)
		const want = `breaker "shop" is open: ask again after 9.5s`
		if got := b.refused().Error(); got != want {
			t.Errorf("error %q, want %q", got, want)
		}
	})
}

func TestDoneCountsOnce(t *testing.T) {
	run(t, func(b *bench) {
		done := b.start()
		for range 10 {
			done(Failure)
		}
		b.is(Closed)
		b.fail(3)
		b.is(Closed)
		b.fail(1)
		b.is(Open)
	})
}

// A call that began before the breaker tripped tells of that time only.
func TestResultsOfAnEarlierTimeAreDropped(t *testing.T) {
	for name, outcome := range map[string]Outcome{"success": Success, "failure": Failure, "ignored": Ignored} {
		t.Run(name, func(t *testing.T) {
			run(t, func(b *bench) {
				var late [4]func(Outcome)
				for i := range late {
					late[i] = b.start()
				}
				b.trip()
				late[0](outcome)
				b.is(Open)

				time.Sleep(openFor)
				b.is(HalfOpen)
				late[1](outcome)
				b.is(HalfOpen)

				probe := b.start()
				late[2](outcome)
				b.is(HalfOpen)
				b.refused() // the probe still has its place

				probe(Success)
				b.is(Closed)
				b.fail(4)
				late[3](outcome)
				b.is(Closed)
				b.fail(1)
				b.is(Open)
			})
		})
	}
}

func TestNoBreakerIsClosed(t *testing.T) {
	var b *Breaker
	for range 100 {
		done, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		done(Failure)
	}
	if b.State() != Closed || b.RetryAfter() != 0 {
		t.Errorf("state %v, retry after %v", b.State(), b.RetryAfter())
	}
}

func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, Breaker: New(Settings{})}
		b.fail(DefaultFailures - 1)
		time.Sleep(DefaultWindow)
		b.fail(DefaultFailures - 1)
		b.is(Closed)
		b.fail(1)
		if got := b.RetryAfter(); got != DefaultOpenFor {
			t.Errorf("open for %v, want %v", got, DefaultOpenFor)
		}
		time.Sleep(DefaultOpenFor)
		b.start() // lost
		time.Sleep(DefaultOpenFor)
		b.succeed(1)
		b.is(Closed)
	})
}

func TestTinySettingsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, Breaker: New(Settings{Failures: 1, Window: 1, OpenFor: 1, ProbeTimeout: 1})}
		b.fail(1)
		time.Sleep(time.Microsecond)
		b.succeed(1)
		b.is(Closed)
	})
}

func TestEverythingHasAName(t *testing.T) {
	got := []string{Closed.String(), HalfOpen.String(), Open.String(), State(9).String()}
	want := []string{"closed", "half-open", "open", "state(9)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkAllowDone(b *testing.B) {
	breaker := New(Settings{Name: "shop"})
	b.ReportAllocs()
	for b.Loop() {
		if done, err := breaker.Allow(); err == nil {
			done(Success)
		}
	}
}

func BenchmarkAllowDoneParallel(b *testing.B) {
	breaker := New(Settings{Name: "shop"})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if done, err := breaker.Allow(); err == nil {
				done(Success)
			}
		}
	})
}

func BenchmarkAllowWhileOpen(b *testing.B) {
	breaker := New(Settings{Name: "shop", OpenFor: time.Hour})
	for range DefaultFailures {
		if done, err := breaker.Allow(); err == nil {
			done(Failure)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := breaker.Allow(); err == nil {
			b.Fatal("not open")
		}
	}
}
