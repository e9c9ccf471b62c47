package call_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
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

// What concerns the connection opens the breaker of that, whoever met it; what came of a
// request that was sent opens its tool's alone, or none.
func TestWhoseBreakerAFailureOpens(t *testing.T) {
	const tools, connections, nobodys = "the tool's", "the connection's", "none"
	answered := func(status int, code tool.Code) tool.Failure {
		return tool.Failure{Code: code, Evidence: tool.Ambiguous, Status: status}
	}
	down := calltest.Refused
	down.KnownDown = true
	for name, c := range map[string]struct {
		failure tool.Failure
		effect  tool.Effect
		opens   string
	}{
		"no connection":                     {calltest.Refused, tool.NonIdempotent, connections},
		"no connection, to read":            {calltest.Refused, tool.ReadOnly, connections},
		"down, and known to be":             {down, tool.NonIdempotent, nobodys},
		"a lost acknowledgement":            {calltest.CutOff, tool.NonIdempotent, nobodys},
		"a lost answer that can be asked":   {calltest.CutOff, tool.ReadOnly, tools},
		"a lost answer that can be had":     {calltest.CutOff, tool.Keyed, tools},
		"no answer in time":                 {calltest.TimedOut, tool.NonIdempotent, tools},
		"500":                               {answered(500, tool.CodeDependencyUnavailable), tool.NonIdempotent, tools},
		"503":                               {answered(503, tool.CodeDependencyUnavailable), tool.ReadOnly, tools},
		"a stream that was refused":         {tool.Failure{Code: tool.CodeDependencyUnavailable, Evidence: tool.NotExecuted}, tool.NonIdempotent, tools},
		"404":                               {calltest.NotFound, tool.ReadOnly, nobodys},
		"cancelled":                         {calltest.Cancelled, tool.ReadOnly, nobodys},
		"an address that must not be asked": {tool.Failure{Code: tool.CodeUnrecoverable, Evidence: tool.NotExecuted}, tool.ReadOnly, nobodys},
	} {
		t.Run(name, func(t *testing.T) {
			route := calltest.NewRoute(t, "act", c.effect, calltest.Fails(calltest.Always, c.failure), calltest.WithBreaker(1), oneAttempt)
			s := calltest.New(t, route)
			s.Call(calltest.Request("toolu_1", "act"))
			own, connection := route.Breaker.State() == breaker.Open, route.Connection.State() == breaker.Open
			if own != (c.opens == tools) || connection != (c.opens == connections) {
				t.Errorf("open: the tool's %v, the connection's %v; want %s", own, connection, c.opens)
			}
			if c.opens == nobodys {
				return
			}
			says := map[string]string{tools: "act has been failing", connections: "the connection to the backend shop has been failing"}[c.opens]
			if res := s.Call(calltest.Request("toolu_2", "act")); calltest.Code(res) != tool.CodeCircuitOpen || !strings.Contains(res.GetError().GetConstraint(), says) {
				t.Errorf("the next call: %s", res.GetContent())
			}
		})
	}
}

// The probe of the connection is over when there is a connection: a tool that takes its
// time keeps no other from being called.
func TestASlowToolDoesNotKeepTheConnectionsProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, answer := make(chan struct{}), make(chan struct{})
		slow := &calltest.Backend{Do: func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
			if failure := in.Withheld(); failure != nil {
				return tool.Reply{}, failure
			}
			close(sent)
			<-answer
			return tool.Reply{Text: []byte("done")}, nil
		}}
		connection := calltest.NewBreaker("shop", 1)
		shared := func(r *catalog.Route) { r.Connection = connection }
		s := calltest.New(t, calltest.NewRoute(t, "slow", tool.ReadOnly, slow, shared), calltest.NewRoute(t, "look", tool.ReadOnly, calltest.Answers("found"), shared))
		trip(t, connection, 1)
		if res := s.Call(calltest.Request("toolu_1", "look")); calltest.Code(res) != tool.CodeCircuitOpen {
			t.Errorf("while it is open: %v", res)
		}
		time.Sleep(time.Minute)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Execute(t.Context(), call.NewRequest("", calltest.Request("toolu_2", "slow")))
		}()
		<-sent
		if res := s.Call(calltest.Request("toolu_3", "look")); res.GetContent() != "found" {
			t.Errorf("beside the slow one: %v", res)
		}
		close(answer)
		<-done
	})
}

// A breaker that refuses gives back the place that the other one had given.
func TestARefusalKeepsNoProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		route := calltest.NewRoute(t, "look", tool.ReadOnly, calltest.Answers("found"), calltest.WithBreaker(1))
		s := calltest.New(t, route)
		trip(t, route.Breaker, 1)
		time.Sleep(time.Minute)
		trip(t, route.Connection, 1)
		if res := s.Call(calltest.Request("toolu_1", "look")); calltest.Code(res) != tool.CodeCircuitOpen {
			t.Errorf("the connection is refused: %v", res)
		}
		if wait := route.Breaker.RetryAfter(); wait != 0 {
			t.Errorf("the tool's own probe is kept for %v", wait)
		}
	})
}

// Nobody is sent to a tool that a breaker blocks at that moment: it is told when it is
// back.
func TestNoHintRecommendsWhatIsBlocked(t *testing.T) {
	denied := tool.Failure{Code: tool.CodeBusinessRule, Evidence: tool.Definite, CallerFault: true, AllowedAlternatives: []string{"look", "browse"}}
	verifies := func(r *catalog.Route) { r.Tool.Policy.VerifyWith = "look" }
	for name, c := range map[string]struct {
		of       *catalog.Route
		open     string // what the hint says while look can be called
		others   []string
		unlisted bool
	}{
		"an unknown outcome": {
			of:   calltest.NewRoute(t, "pay", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.CutOff), verifies),
			open: `until you know: call look with {"order_id":"A-1"} to see whether it has.`,
		},
		"one that may be sent again": {
			of:   calltest.NewRoute(t, "pay", tool.Keyed, calltest.Fails(calltest.Always, calltest.CutOff), verifies, oneAttempt),
			open: `is safe; or call look with {"order_id":"A-1"} to see whether it has.`, unlisted: true,
		},
		"alternatives": {
			of:   calltest.NewRoute(t, "pay", tool.NonIdempotent, calltest.Fails(calltest.Always, denied)),
			open: "You may call instead: look, browse.", others: []string{"browse"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				look := calltest.NewRoute(t, "look", tool.ReadOnly, calltest.Answers("found"), calltest.WithBreaker(1))
				s := calltest.New(t, c.of, look, calltest.NewRoute(t, "browse", tool.ReadOnly, calltest.Answers("found")))
				res := s.Call(calltest.Request("toolu_1", "pay"))
				if hint := res.GetError().GetHint(); !strings.Contains(hint, c.open) {
					t.Errorf("while it can be called: %s", hint)
				}
				if names := res.GetRecovery().GetAllowedAlternatives(); slices.Contains(names, "look") == c.unlisted {
					t.Errorf("while it can be called, the alternatives are %q", names)
				}
				trip(t, look.Connection, 1)
				time.Sleep(17 * time.Second)
				req := calltest.Request("toolu_2", "pay")
				res = s.Call(req)
				hint := res.GetError().GetHint()
				if strings.Contains(hint, c.open) || !strings.Contains(hint, "look has been failing") || !strings.Contains(hint, "43s") {
					t.Errorf("while it is blocked: %s", hint)
				}
				if names := res.GetRecovery().GetAllowedAlternatives(); !slices.Equal(names, c.others) {
					t.Errorf("while it is blocked, the alternatives are %q", names)
				}
			})
		})
	}
}

// The words of an unknown outcome stay as they were recorded; that what they recommend is
// blocked by now is said beside them.
func TestARecordedHintIsCorrectedBesideIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		look := calltest.NewRoute(t, "look", tool.ReadOnly, calltest.Answers("found"), calltest.WithBreaker(1))
		pay := calltest.NewRoute(t, "pay", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.CutOff), func(r *catalog.Route) { r.Tool.Policy.VerifyWith = "look" })
		s := calltest.New(t, pay, look)
		first := s.Call(calltest.Request("toolu_1", "pay"))
		again := func() *sidecallv1.ExecuteToolResponse {
			res := s.Call(calltest.Request("toolu_1", "pay"))
			if res.GetContent() != first.GetContent() {
				t.Errorf("the words have changed: %s", res.GetContent())
			}
			return res
		}
		if notices := again().GetNotices(); len(notices) > 0 {
			t.Errorf("while it can be called: %q", notices)
		}
		trip(t, look.Breaker, 1)
		if notices := again().GetNotices(); !slices.Equal(notices, []string{"look has been failing: do not call it before 1m0s have passed."}) {
			t.Errorf("while it is blocked: %q", notices)
		}
	})
}
