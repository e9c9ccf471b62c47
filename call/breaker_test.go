package call_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/call"
	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/testkit/calltest"
	"github.com/sidecall/sidecall/tool"
)

// impatient are the ways of a caller that does not wait for as long as its tool may take.
var impatient = map[string]func(s *calltest.Sidecar, id string){
	"its own deadline": func(s *calltest.Sidecar, id string) {
		ctx, cancel := context.WithTimeout(s.T.Context(), 300*time.Millisecond)
		defer cancel()
		s.Execute(ctx, call.NewRequest("", calltest.Request(id, "charge")))
	},
	"the request's timeout": func(s *calltest.Sidecar, id string) {
		req := calltest.Request(id, "charge")
		req.Timeout = durationpb.New(300 * time.Millisecond)
		s.Call(req)
	},
}

// Callers that do not wait say nothing about a backend that is well: those who do wait
// are answered, however many did not.
func TestAnImpatientCallerOpensNobodysBreaker(t *testing.T) {
	for _, effect := range []tool.Effect{tool.ReadOnly, tool.Idempotent, tool.NonIdempotent} {
		for how, hurries := range impatient {
			t.Run(effect.String()+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					route := calltest.NewRoute(t, "charge", effect, takes(900*time.Millisecond), calltest.WithBreaker(5))
					s := calltest.New(t, route)
					for i := range 20 {
						hurries(s, fmt.Sprint("toolu_", i))
					}
					if res := s.Call(calltest.Request("toolu_patient", "charge")); res.GetContent() != "refunded" {
						t.Errorf("a patient caller: %v", res)
					}
				})
			})
		}
	}
}

// Nor do they say that it is well: a probe that its caller did not wait for closes
// nothing, opens nothing, and gives its place to the next call.
func TestAnImpatientProbeDecidesNothing(t *testing.T) {
	for how, hurries := range impatient {
		synctest.Test(t, func(t *testing.T) {
			route := calltest.NewRoute(t, "charge", tool.ReadOnly, takes(900*time.Millisecond), calltest.WithBreaker(1))
			s := calltest.New(t, route)
			trip(t, route.Breaker, 1)
			time.Sleep(time.Minute)
			hurries(s, "toolu_1")
			if got, wait := route.Breaker.State(), route.Breaker.RetryAfter(); got != breaker.HalfOpen || wait != 0 {
				t.Errorf("%s: after the probe it is %v, to be asked in %v", how, got, wait)
			}
		})
	}
}

// The time that the tool itself is given counts, as one attempt's or as the whole call's,
// also where nobody waited so long.
func TestTheToolsOwnTimeCounts(t *testing.T) {
	own := map[string]func(*catalog.Route){
		"attempt_timeout": func(r *catalog.Route) { r.Tool.Policy.AttemptTimeout = 400 * time.Millisecond },
		"deadline": func(r *catalog.Route) {
			r.Tool.Policy.Deadline, r.Tool.Policy.AttemptTimeout = 400*time.Millisecond, 400*time.Millisecond
		},
	}
	for name, limited := range own {
		for _, effect := range []tool.Effect{tool.ReadOnly, tool.Idempotent, tool.NonIdempotent} {
			synctest.Test(t, func(t *testing.T) {
				route := calltest.NewRoute(t, "charge", effect, takes(time.Hour), calltest.WithBreaker(2), limited, oneAttempt)
				s := calltest.New(t, route)
				s.Call(calltest.Request("toolu_1", "charge"))
				if effect != tool.ReadOnly { // which goes on without its caller, for as long as its tool is given
					impatient["its own deadline"](s, "toolu_2")
					time.Sleep(time.Second)
					synctest.Wait()
				} else {
					s.Call(calltest.Request("toolu_2", "charge"))
				}
				if got := route.Breaker.State(); got != breaker.Open {
					t.Errorf("%s, %v: it is %v", name, effect, got)
				}
			})
		}
	}
}

// oneAttempt makes a single attempt per call.
func oneAttempt(r *catalog.Route) { r.Tool.Policy.Retry.MaxAttempts = 1 }

// trip opens a breaker.
func trip(t *testing.T, b *breaker.Breaker, failures int) {
	t.Helper()
	for range failures {
		done, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		done(breaker.Failure)
	}
}
