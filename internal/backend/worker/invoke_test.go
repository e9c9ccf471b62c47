package worker

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

func TestACallIsHandedOverAndAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		p := r.hire(registration("agent", "add"))
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled}))
		carried, err := baggage.Parse("tenant=acme")
		if err != nil {
			t.Fatal(err)
		}
		ctx = baggage.ContextWithBaggage(ctx, carried)
		call := to("add")
		call.Args, call.ID, call.Conversation, call.Turn, call.Attempt = []byte(`{"a":1}`), "toolu_1", "c1", "t\xff1", 3
		done := r.call(ctx, call)
		in := p.invoked()
		if in.GetTool() != "add" || in.GetArgumentsJson() != `{"a":1}` || in.GetToolUseId() != "toolu_1" || in.GetConversationId() != "c1" ||
			in.GetTurnId() != "t\uFFFD1" || in.GetIdempotencyKey() != "key" || in.GetAttempt() != 3 || in.GetDeadline().AsDuration() != 7*time.Second ||
			in.GetTraceparent() != "00-01000000000000000000000000000000-0200000000000000-01" || in.GetBaggage() != "tenant=acme" {
			t.Errorf("the worker was told %v", in)
		}
		p.answer(in.GetInvocationId(), "2")
		(<-done).text(t, "2")
	})
}

// The least busy worker gets the next call, none more than it wants, and what there is
// no place for waits its turn.
func TestWorkersShareALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{MaxInFlight: 2}, nil)
		one := r.hire(registration("one", "add")).alive()
		many := r.hire(with(registration("many", "add"), func(r *sidecallv1.WorkerRegister) { r.MaxInFlight = 100 })).alive()
		other := r.hire(registration("other", "sub")).alive()
		var done []<-chan answered
		for range 5 {
			done = append(done, r.call(t.Context(), to("add")))
		}
		a, b, c := one.invoked(), many.invoked(), many.invoked()
		if !one.idle() || !many.idle() || !other.idle() {
			t.Fatal("a worker was given more than it wants, or what it does not serve")
		}
		many.answer(b.GetInvocationId(), "b")
		d := many.invoked()
		one.answer(a.GetInvocationId(), "a")
		e := one.invoked()
		many.answer(d.GetInvocationId(), "d")
		many.answer(c.GetInvocationId(), "c")
		one.answer(e.GetInvocationId(), "e")
		got := ""
		for _, d := range done {
			got += string((<-d).reply.Text)
		}
		if got != "abcde" { // who came first was served first
			t.Errorf("the calls were answered %s", got)
		}
	})
}

// What a worker was sent may have run; what was still in its queue goes to another.
func TestAWorkerThatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		lost := r.hire(with(registration("lost", "add"), func(r *sidecallv1.WorkerRegister) { r.MaxInFlight = 2 }))
		sent := r.call(t.Context(), to("add"))
		lost.invoked()
		queued := r.call(t.Context(), to("add")) // which its worker does not take
		lost.cancel()
		(<-sent).want(t, tool.CodeDependencyUnavailable, tool.Ambiguous)
		// The second was being sent: nobody knows whether the other side has read it.
		(<-queued).want(t, tool.CodeDependencyUnavailable, tool.Ambiguous)
		<-lost.served
	})
}

func TestAQueueIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		lost := r.hire(with(registration("lost", "add"), func(r *sidecallv1.WorkerRegister) { r.MaxInFlight = 3 }))
		first := r.call(t.Context(), to("add")) // stuck in the sending
		second := r.call(t.Context(), to("add"))
		other := r.join(registration("other", "add")).alive()
		synctest.Wait()
		lost.cancel()
		(<-first).want(t, tool.CodeDependencyUnavailable, tool.Ambiguous)
		if other.next().GetRegistered() == nil {
			t.Fatal("not registered")
		}
		other.answer(other.invoked().GetInvocationId(), "from the other")
		(<-second).text(t, "from the other")
	})
}

// A worker that says nothing for three intervals is dead, whatever its connection says.
func TestASilentWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{Heartbeat: 10 * time.Second}, nil)
		silent := r.hire(registration("silent", "add"))
		beating := r.hire(registration("beating", "sub")).alive()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		done := r.call(ctx, to("add"))
		silent.invoked()
		began := time.Now()
		(<-done).want(t, tool.CodeDependencyUnavailable, tool.Ambiguous)
		if took := time.Since(began); took < 20*time.Second || took > 30*time.Second {
			t.Errorf("it was taken for dead after %s", took)
		}
		if err := <-silent.served; status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("its stream ended with %v", err)
		}
		time.Sleep(time.Hour)
		if beating.ctx.Err() != nil || r.Workers() != 1 {
			t.Error("the other one was taken for dead too")
		}
	})
}

// One that sends heartbeats and reads nothing is no use either.
func TestAWorkerThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		p := r.hire(registration("agent", "add")).alive()
		(<-r.call(t.Context(), to("add"))).want(t, tool.CodeDependencyUnavailable, tool.Ambiguous)
		if err := <-p.served; status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("its stream ended with %v", err)
		}
	})
}

// A tool whose workers are away is known, says so, and is there again with them.
func TestAwayAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		p := r.hire(registration("agent", "add"))
		p.cancel()
		<-p.served
		synctest.Wait()
		if len(r.downs) != 1 {
			t.Errorf("told %v", r.downs)
		}
		failure := (<-r.call(t.Context(), to("add"))).want(t, tool.CodeDependencyUnavailable, tool.NotExecuted)
		if failure.RetryAfter <= 0 || failure.Constraint != "no worker serves it now" || !failure.KnownDown {
			t.Errorf("it says %+v", failure)
		}
		waits := r.call(t.Context(), to("add"))
		time.Sleep(patience / 2)
		p = r.hire(registration("agent", "add"))
		p.answer(p.invoked().GetInvocationId(), "back")
		(<-waits).text(t, "back")
		if len(r.lists) != 2 { // it is told that it is up again
			t.Errorf("told %v", r.lists)
		}
	})
}

// A call that waits for a worker is for the tool as it was when it was checked, and not for
// one that is declared otherwise by whoever comes.
func TestACallThatWaitsForAToolThatIsDeclaredOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		p := r.hire(registration("agent", "add"))
		call := r.checked(to("add"))
		p.cancel()
		<-p.served
		waits := r.call(t.Context(), call)
		time.Sleep(patience / 2)
		another := r.hire(otherwise("agent", "add")).alive()
		if !another.idle() {
			t.Fatal("it was given the call")
		}
		late := r.call(t.Context(), call) // checked before, and only now on its way
		for _, done := range []<-chan answered{waits, late} {
			if failure := (<-done).want(t, tool.CodeDependencyUnavailable, tool.NotExecuted); failure.ErrorType != "no_worker" {
				t.Errorf("it says %+v", failure)
			}
		}
		if !another.idle() {
			t.Error("it was given a call")
		}
		same := r.call(t.Context(), to("add"))
		another.answer(another.invoked().GetInvocationId(), "the new one")
		(<-same).text(t, "the new one")
	})
}

// A call is as long as it is on the wire: with all that is in it, and not by its arguments
// alone. What a worker can always read is sent, however short requests are to be.
func TestHowLongACallMayBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{MaxMessage: 2048}, nil)
		p := r.hire(with(registration("agent", "add"), func(r *sidecallv1.WorkerRegister) { r.MaxInFlight = 9 })).alive()
		carried, err := baggage.Parse("a=" + strings.Repeat("a", 4000) + ",b=" + strings.Repeat("b", 4000))
		if err != nil {
			t.Fatal(err)
		}
		plain := baggage.ContextWithBaggage(t.Context(), carried)
		timed, cancel := context.WithTimeout(plain, 7*time.Second+1)
		defer cancel()
		for name, ctx := range map[string]context.Context{"without a deadline": plain, "with one": timed} {
			send := func(text int) <-chan answered {
				call := to("add")
				call.Args = []byte(`{"text":"` + strings.Repeat("x", text) + `"}`)
				return r.call(ctx, call)
			}
			short := send(3 << 20)
			if len(short) > 0 {
				t.Fatalf("a short one: %v", (<-short).failure)
			}
			command := p.next()
			p.answer(command.GetInvoke().GetInvocationId(), "short")
			(<-short).text(t, "short")
			spare := 0
			if ctx == timed {
				spare = 4 // bytes more that less time may take
			}
			longest := 3<<20 + defaultMaxMessage - proto.Size(command) - spare
			fits := send(longest)
			if len(fits) > 0 {
				t.Fatalf("%s: the longest: %v", name, (<-fits).failure)
			}
			command = p.next()
			if size := proto.Size(command); size != defaultMaxMessage-spare {
				t.Errorf("%s: it has %d bytes", name, size)
			}
			p.answer(command.GetInvoke().GetInvocationId(), "fits")
			(<-fits).text(t, "fits")
			(<-send(longest + 1)).want(t, tool.CodeInvalidArgs, tool.NotExecuted)
		}
	})
}

// The last worker goes while calls wait for a place at it.
func TestALineWithoutAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		p := r.hire(registration("agent", "add")).alive()
		busy := r.call(t.Context(), to("add"))
		p.invoked()
		waits := r.call(t.Context(), to("add"))
		time.Sleep(time.Minute)
		p.cancel()
		(<-busy).want(t, tool.CodeDependencyUnavailable, tool.Ambiguous)
		(<-waits).want(t, tool.CodeDependencyUnavailable, tool.NotExecuted)
	})
}

func TestNoWorkerIsFreeInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		p := r.hire(registration("agent", "add")).alive()
		busy := r.call(t.Context(), to("add"))
		p.invoked()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		failure := (<-r.call(ctx, to("add"))).want(t, tool.CodeOverloaded, tool.NotExecuted)
		if failure.RetryAfter <= 0 {
			t.Errorf("it says %+v", failure)
		}
		gone, leave := context.WithCancel(t.Context())
		left := r.call(gone, to("add"))
		leave()
		(<-left).want(t, tool.CodeCancelled, tool.NotExecuted)
		p.cancel()
		<-busy
	})
}

// What the worker says of a call that was cancelled counts, for a moment.
func TestCancel(t *testing.T) {
	for name, c := range map[string]struct {
		effect   tool.Effect
		after    time.Duration
		says     *sidecallv1.WorkerResult // nil for nothing
		code     tool.Code                // none for a result
		proves   tool.Evidence
		late     int64
		byItsOwn bool // the time of the call is over, and not the caller gone
	}{
		"it was done":                {says: &sidecallv1.WorkerResult{Content: "done"}},
		"it was not run":             {says: &sidecallv1.WorkerResult{NotRun: true}, code: tool.CodeCancelled, proves: tool.NotExecuted},
		"it was cut off":             {says: &sidecallv1.WorkerResult{IsError: true}, code: tool.CodeCancelled, proves: tool.Ambiguous},
		"nothing in time":            {after: lastWord, says: &sidecallv1.WorkerResult{Content: "done"}, code: tool.CodeCancelled, proves: tool.Ambiguous, late: 1},
		"nobody waits for a reading": {effect: tool.ReadOnly, after: time.Millisecond, says: &sidecallv1.WorkerResult{Content: "done"}, code: tool.CodeCancelled, proves: tool.Ambiguous, late: 1},
		"it got no place":            {says: &sidecallv1.WorkerResult{NotRun: true, Code: "OVERLOADED"}, code: tool.CodeCancelled, proves: tool.NotExecuted},
		"it got no place in time":    {byItsOwn: true, says: &sidecallv1.WorkerResult{NotRun: true, Code: "OVERLOADED"}, code: tool.CodeOverloaded, proves: tool.NotExecuted},
		"a reading got no place":     {effect: tool.ReadOnly, byItsOwn: true, says: &sidecallv1.WorkerResult{NotRun: true, Code: "OVERLOADED"}, code: tool.CodeOverloaded, proves: tool.NotExecuted},
		"a reading is slow":          {effect: tool.ReadOnly, byItsOwn: true, after: shortWord, says: &sidecallv1.WorkerResult{Content: "done"}, code: tool.CodeTimeout, proves: tool.Ambiguous, late: 1},
		"it was undone in time":      {byItsOwn: true, says: &sidecallv1.WorkerResult{NotRun: true}, code: tool.CodeTimeout, proves: tool.NotExecuted},
		"its time is over":           {byItsOwn: true, after: shortWord, says: &sidecallv1.WorkerResult{Content: "done"}, code: tool.CodeTimeout, proves: tool.Ambiguous, late: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, Config{}, nil)
				p := r.hire(registration("agent", "add")).alive()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				call := to("add")
				call.Effect = c.effect
				done := r.call(ctx, call)
				in := p.invoked()
				if !c.byItsOwn {
					cancel()
				}
				if got := p.next().GetCancel().GetInvocationId(); got != in.GetInvocationId() {
					t.Fatalf("cancelled %q", got)
				}
				time.Sleep(c.after)
				synctest.Wait()
				c.says.InvocationId = in.GetInvocationId()
				p.result(c.says)
				if got := <-done; c.code == "" {
					got.text(t, c.says.GetContent())
				} else {
					got.want(t, c.code, c.proves)
				}
				synctest.Wait()
				if r.late.Load() != c.late {
					t.Errorf("%d results were late", r.late.Load())
				}
				// Its place is free again.
				next := r.call(t.Context(), to("add"))
				p.answer(p.invoked().GetInvocationId(), "next")
				(<-next).text(t, "next")
			})
		})
	}
}

// The place of a call is the function's until it ends, whoever waits for it.
// A function whose time ends is cancelled in its worker too, and says so: that is how it ends,
// and no word of its own that it had done nothing, whichever of the two is seen first.
func TestAFunctionThatEndsWithItsTime(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, Config{}, nil)
			p := r.hire(registration("agent", "add")).alive()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			call := to("add")
			call.FailsCleanly = true
			done := r.call(ctx, call)
			in := p.invoked()
			time.Sleep(time.Minute)
			p.result(&sidecallv1.WorkerResult{InvocationId: in.GetInvocationId(), IsError: true})
			(<-done).want(t, tool.CodeTimeout, tool.Ambiguous)
		})
	}
}

func TestAFunctionThatDoesNotEndKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		p := r.hire(registration("agent", "add")).alive()
		ctx, cancel := context.WithCancel(t.Context())
		done := r.call(ctx, to("add"))
		in := p.invoked()
		cancel()
		p.next()
		(<-done).want(t, tool.CodeCancelled, tool.Ambiguous)
		r.Backend.mu.Lock()
		for s := range r.roster.sessions {
			if kept := s.busy[in.GetInvocationId()]; kept.ctx != nil || !reflect.DeepEqual(kept.call, backend.Invocation{Tool: "add"}) {
				t.Errorf("of the call it keeps %+v", kept.call)
			}
		}
		r.Backend.mu.Unlock()
		next := r.call(t.Context(), to("add"))
		if time.Sleep(time.Hour); !p.idle() {
			t.Fatal("it was given another call")
		}
		p.answer(in.GetInvocationId(), "late")
		p.answer(p.invoked().GetInvocationId(), "next")
		(<-next).text(t, "next")
		p.answer("17", "of nothing")
		p.answer("", "of nothing")
		if synctest.Wait(); r.late.Load() != 3 {
			t.Errorf("%d results were late", r.late.Load())
		}
	})
}

// right is one that can be lost.
type right bool

func (r *right) Held() bool { return bool(*r) }

func TestACallWhoseRightIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		p := r.hire(registration("agent", "add")).alive()
		busy := r.call(t.Context(), to("add"))
		in := p.invoked()
		held := right(true)
		call := to("add")
		call.Right = &held
		done := r.call(t.Context(), call)
		held = false
		p.answer(in.GetInvocationId(), "")
		<-busy
		if got := <-done; !backend.WasWithheld(got.failure) {
			t.Fatalf("got %v", got.failure)
		}
		if !p.idle() {
			t.Error("it was sent all the same")
		}
		held = true
		again := r.call(t.Context(), call)
		p.answer(p.invoked().GetInvocationId(), "again")
		(<-again).text(t, "again")
	})
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		p := r.hire(registration("agent", "add")).alive()
		var notes []string
		call := to("add")
		call.Progress = func(sign backend.Sign) { notes = append(notes, sign.Note) }
		done := r.call(t.Context(), call)
		in := p.invoked()
		for _, id := range []string{in.GetInvocationId(), "17"} {
			p.say(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Progress{Progress: &sidecallv1.WorkerProgress{InvocationId: id, Note: "half of " + id}}})
		}
		p.answer(in.GetInvocationId(), "")
		<-done
		if len(notes) != 2 || notes[1] != "half of "+in.GetInvocationId() { // the first when it was handed over
			t.Errorf("told %q", notes)
		}
	})
}

// A worker serves the calls of its own tenant; one of the tenant without a name, who has
// every profile and says what tools there are, those of all.
func TestTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		first := r.hire(registration("agent", "add")).alive()
		p := r.joinAs("a", registration("agent", "add")).alive()
		p.next()
		first.leave()
		<-first.served
		(<-r.call(t.Context(), to("add"))).want(t, tool.CodeDependencyUnavailable, tool.NotExecuted)
		call := to("add")
		call.Tenant = "a"
		done := r.call(t.Context(), call)
		p.answer(p.invoked().GetInvocationId(), "its own")
		(<-done).text(t, "its own")
		p.leave()
		<-p.served
		all := r.hire(registration("agent", "add")).alive()
		done = r.call(t.Context(), call)
		all.answer(all.invoked().GetInvocationId(), "another's")
		(<-done).text(t, "another's")
	})
}

// A tool that was forgotten and comes again is another one: a worker of a tenant with a
// name that has registered the one before is not given its calls.
func TestAForgottenToolIsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		passing := func(register *sidecallv1.WorkerRegister) {
			p := r.hire(register).alive()
			p.leave()
			<-p.served
		}
		before := r.hire(registration("agent", "add")).alive()
		p := r.joinAs("a", registration("agent", "add")).alive()
		p.next()
		before.leave()
		<-before.served
		passing(registration("agent", "sub")) // has add no more
		another := registration("agent", "add")
		another.Tools[0].Description = "does something else"
		passing(another)
		call := to("add")
		call.Tenant = "a"
		done := r.call(t.Context(), call)
		synctest.Wait()
		select {
		case c := <-p.down:
			t.Errorf("it is given %v", c)
		case got := <-done:
			got.want(t, tool.CodeDependencyUnavailable, tool.NotExecuted)
		}
	})
}

// A worker that serves the calls of one client is given no others, however busy those are
// that could be.
func TestAWorkerOfOneClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		of := func(client string) (worker *peer, call backend.Invocation) {
			call = to("add")
			call.Client = client
			return r.hire(with(registration("agent", "add"), func(r *sidecallv1.WorkerRegister) { r.Client = client })).alive(), call
		}
		one, ones := of("one")
		two, twos := of("two")
		first, second := r.call(t.Context(), ones), r.call(t.Context(), ones) // the second waits, although two is idle
		nobodys := r.call(t.Context(), to("add"))
		a := one.invoked()
		if !two.idle() {
			t.Fatal("a worker was given the call of another client")
		}
		one.answer(a.GetInvocationId(), "a")
		one.answer(one.invoked().GetInvocationId(), "b")
		third := r.call(t.Context(), twos)
		two.answer(two.invoked().GetInvocationId(), "c")
		(<-first).text(t, "a")
		(<-second).text(t, "b")
		(<-third).text(t, "c")
		(<-nobodys).want(t, tool.CodeDependencyUnavailable, tool.NotExecuted)
	})
}
