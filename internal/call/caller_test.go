package call_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// takes is a backend that answers after a time, and breaks off when it is told to.
func takes(work time.Duration) *calltest.Backend {
	return &calltest.Backend{Do: func(ctx context.Context, _ backend.Invocation) (tool.Reply, *tool.Failure) {
		select {
		case <-time.After(work):
			return tool.Reply{Text: []byte("refunded")}, nil
		case <-ctx.Done():
			failure := calltest.TimedOut
			if errors.Is(ctx.Err(), context.Canceled) {
				failure = calltest.Cancelled
			}
			return tool.Reply{}, &failure
		}
	}}
}

// leaving runs a call for a caller that leaves after a time: it cancels, or its
// deadline passes.
func leaving(t *testing.T, s *calltest.Sidecar, how string, after time.Duration, req *sidecallv1.ExecuteToolRequest) *sidecallv1.ExecuteToolResponse {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	if how == "deadline" {
		ctx, cancel = context.WithTimeout(t.Context(), after)
	} else {
		time.AfterFunc(after, cancel)
	}
	defer cancel()
	res := s.Execute(ctx, call.NewRequest("", req))
	calltest.CheckInvariants(t, req, res)
	return res
}

var waysToLeave = []string{"cancel", "deadline"}

// TestACallerThatLeavesThrowsNoResultAway: the effect has begun, so it ends, is
// recorded, and whoever sends the id again joins it or gets its result.
func TestACallerThatLeavesThrowsNoResultAway(t *testing.T) {
	for _, how := range waysToLeave {
		for _, effect := range []tool.Effect{tool.NonIdempotent, tool.Keyed, tool.Idempotent} {
			t.Run(how+" "+effect.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := takes(400 * time.Millisecond)
					s := calltest.New(t, calltest.NewRoute(t, "refund", effect, b))
					began := time.Now()
					left := make(chan *sidecallv1.ExecuteToolResponse, 1)
					go func() { left <- leaving(t, s, how, 150*time.Millisecond, calltest.Request("toolu_1", "refund")) }()
					time.Sleep(200 * time.Millisecond) // it has left
					joined := s.Call(calltest.Request("toolu_1", "refund"))
					if joined.GetContent() != "refunded" || !joined.GetRecorded() {
						t.Errorf("the id sent again got %v", joined)
					}
					if took := time.Since(began); took != 400*time.Millisecond {
						t.Errorf("it took %v", took)
					}
					if res := <-left; how == "deadline" && (calltest.Code(res) != tool.CodeInProgress || res.GetDuration().AsDuration() > 150*time.Millisecond) {
						t.Errorf("the caller was told %v", res)
					}
					if again := s.Call(calltest.Request("toolu_1", "refund")); !again.GetReplayed() || again.GetContent() != "refunded" {
						t.Errorf("later it got %v", again)
					}
					if n := b.Calls.Load(); n != 1 {
						t.Errorf("%d attempts", n)
					}
				})
			})
		}
	}
}

// TestTheLogSaysWhoHasLeft, and of nobody who still waits: neither for a result nor
// for a tool whose own time is over.
func TestTheLogSaysWhoHasLeft(t *testing.T) {
	for _, effect := range []tool.Effect{tool.ReadOnly, tool.NonIdempotent} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			s := calltest.New(t, calltest.NewRoute(t, "quick", effect, takes(time.Millisecond)),
				calltest.NewRoute(t, "late", effect, takes(time.Hour)),
				calltest.NewRoute(t, "steady", effect, takes(400*time.Millisecond)))
			logged(s, t, slog.NewTextHandler(&log, nil))
			s.Call(calltest.Request("toolu_quick", "quick"))
			s.Call(calltest.Request("toolu_late", "late"))
			if strings.Contains(log.String(), "caller_left") || strings.Count(log.String(), "attempts=") != 2 {
				t.Errorf("%s: nobody has left:\n%s", effect, log.String())
			}
			for _, how := range waysToLeave {
				log.Reset()
				leaving(t, s, how, 150*time.Millisecond, calltest.Request("toolu_"+how, "steady"))
				time.Sleep(time.Second)
				synctest.Wait()
				if how == "deadline" && effect == tool.ReadOnly { // it was answered in time
					continue
				}
				if !strings.Contains(log.String(), "caller_left=true") {
					t.Errorf("%s, %s: its caller has left:\n%s", effect, how, log.String())
				}
			}
		})
	}
}

// TestWhoEndsWithItsCaller: what has no effect, and what the operator says undoes
// what it has begun.
func TestWhoEndsWithItsCaller(t *testing.T) {
	for _, how := range waysToLeave {
		synctest.Test(t, func(t *testing.T) {
			read, undoes := takes(time.Second), takes(time.Second)
			s := calltest.New(t, calltest.NewRoute(t, "get_order", tool.ReadOnly, read),
				calltest.NewRoute(t, "refund", tool.NonIdempotent, undoes, func(r *catalog.Route) { r.Tool.Policy.CancelWithCaller = true }))
			for name, want := range map[string]dedupe.State{"get_order": dedupe.NotRun, "refund": dedupe.Unknown} {
				began := time.Now()
				res := leaving(t, s, how, 150*time.Millisecond, calltest.Request("toolu_"+name, name))
				if took := time.Since(began); took > 150*time.Millisecond || !res.GetIsError() {
					t.Errorf("%s, %s: %v after %v", how, name, res, took)
				}
				if state := s.State("toolu_" + name); state != want {
					t.Errorf("%s, %s: it is %s, want %s", how, name, state, want)
				}
			}
		})
	}
}

// TestNothingIsBegunForACallerThatHasLeft: no attempt, no other one, no next call
// of a sequential tool.
func TestNothingIsBegunForACallerThatHasLeft(t *testing.T) {
	for _, how := range waysToLeave {
		synctest.Test(t, func(t *testing.T) {
			later := calltest.Refused
			later.RetryAfter = 100 * time.Millisecond
			refuses := calltest.Fails(calltest.Always, later)
			s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, refuses))
			leaving(t, s, how, 50*time.Millisecond, calltest.Request("toolu_1", "refund"))
			time.Sleep(time.Second)
			if n := refuses.Calls.Load(); n != 1 {
				t.Errorf("%s: %d attempts", how, n)
			}
			if state := s.State("toolu_1"); state != dedupe.NotRun {
				t.Errorf("%s: it is %s", how, state)
			}
		})
		synctest.Test(t, func(t *testing.T) {
			slow := takes(time.Second)
			s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, slow, func(r *catalog.Route) { r.Tool.Policy.Sequential = true }))
			ctx, cancel := context.WithCancel(t.Context())
			if how == "deadline" {
				ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
			} else {
				time.AfterFunc(500*time.Millisecond, cancel)
			}
			defer cancel()
			results := s.ExecuteBatch(ctx, []call.Request{
				call.NewRequest("", calltest.Request("toolu_1", "refund")), call.NewRequest("", calltest.Request("toolu_2", "refund")),
			})
			synctest.Wait()
			time.Sleep(2 * time.Second)
			if n := slow.Calls.Load(); n != 1 || !results[1].GetIsError() {
				t.Errorf("%s: %d attempts, the second got %v", how, n, results[1])
			}
			if first, second := s.State("toolu_1"), s.State("toolu_2"); first != dedupe.Done || second == dedupe.Done || second == dedupe.Unknown {
				t.Errorf("%s: the first is %s, the second %s", how, first, second)
			}
		})
	}
}

// TestNothingIsSentForACallerThatHasLeft: it leaves while a connection is made.
func TestNothingIsSentForACallerThatHasLeft(t *testing.T) {
	for _, how := range waysToLeave {
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			connects := &calltest.Backend{Do: func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
				time.Sleep(400 * time.Millisecond)
				if withheld := in.Withheld(); withheld != nil {
					return tool.Reply{}, withheld
				}
				sent++
				return tool.Reply{}, nil
			}}
			s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, connects))
			leaving(t, s, how, 150*time.Millisecond, calltest.Request("toolu_1", "refund"))
			time.Sleep(time.Second)
			if state := s.State("toolu_1"); state != dedupe.NotRun || sent != 0 {
				t.Errorf("%s: it is %s, sent %d times", how, state, sent)
			}
			if res := s.Call(calltest.Request("toolu_1", "refund")); res.GetIsError() || sent != 1 {
				t.Errorf("%s: sent again it got %v, sent %d times", how, res, sent)
			}
		})
	}
}

// TestWhatGoesOnKeepsToItsOwnLimits: the timeout that the request asks for, the
// tool's deadline, the executor's life.
func TestWhatGoesOnKeepsToItsOwnLimits(t *testing.T) {
	ends := map[string]time.Duration{"timeout": 700 * time.Millisecond, "attempt": time.Second, "life": 300 * time.Millisecond}
	for _, how := range waysToLeave {
		for limit, want := range ends {
			t.Run(how+" "+limit, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, takes(time.Hour)))
					life, end := context.WithCancel(t.Context())
					defer end()
					held := 0
					s.With(func(parts *call.Parts) {
						parts.Life = life
						parts.Hold = func() func() { held++; return func() { held-- } }
					})
					req := call.NewRequest("", calltest.Request("toolu_1", "refund"))
					switch limit {
					case "timeout":
						req.Timeout = want
					case "life":
						time.AfterFunc(want, end)
					}
					ctx, cancel := context.WithCancel(t.Context())
					if how == "deadline" {
						ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
					} else {
						time.AfterFunc(100*time.Millisecond, cancel)
					}
					defer cancel()
					began := time.Now()
					s.Execute(ctx, req)
					if how == "deadline" && held != 1 {
						t.Errorf("%d calls are held to go on", held)
					}
					time.Sleep(want - time.Since(began) - time.Millisecond)
					if state := s.State("toolu_1"); how == "deadline" && state != dedupe.Claimed {
						t.Errorf("it is %s before its end", state)
					}
					time.Sleep(2 * time.Millisecond)
					synctest.Wait()
					if state := s.State("toolu_1"); state != dedupe.Unknown || held != 0 {
						t.Errorf("it is %s, %d are held", state, held)
					}
				})
			})
		}
	}
}

// TestWhatGoesOnKeepsItsClaim: for as long as the call may take, not its caller.
func TestWhatGoesOnKeepsItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, takes(4*time.Minute), func(r *catalog.Route) {
			r.Tool.Policy.AttemptTimeout, r.Tool.Policy.Deadline = 5*time.Minute, 5*time.Minute
		}))
		if res := leaving(t, s, "deadline", time.Second, calltest.Request("toolu_1", "refund")); calltest.Code(res) != tool.CodeInProgress {
			t.Errorf("%v", res)
		}
		time.Sleep(3 * time.Minute)
		if record, err := storetest.Lookup(t.Context(), s.Store, tool.CallID{Conversation: "c1", Turn: "t1", ID: "toolu_1"}); err != nil ||
			!record.LeaseUntil.After(time.Now()) {
			t.Errorf("its lease has ended: %v, %v", record, err)
		}
		time.Sleep(2 * time.Minute)
		if state := s.State("toolu_1"); state != dedupe.Done {
			t.Errorf("it is %s", state)
		}
	})
}
