package worker

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// says is an examiner with a prefix for the tools, and some that cannot be used.
func says(prefix string, bad ...string) Examiner {
	return func(tools []tool.Discovered) (admitted []Admitted, err error) {
		for _, t := range tools {
			if slices.Contains(bad, t.Name) {
				return nil, &TakenError{Name: t.Name, By: "the backend shop"}
			}
			admitted = append(admitted, Admitted{Name: prefix + t.Name, Effect: tool.NonIdempotent})
		}
		return admitted, nil
	}
}

// told reports whether the next thing that a worker hears is a goodbye.
func (p *peer) told() bool {
	synctest.Wait()
	select {
	case c := <-p.down:
		return c.GetGoodbye() != nil
	default:
		return false
	}
}

// A config that says the same of a worker leaves it alone; one that says something else
// of what it was told has it come again.
func TestWhoIsToldOfAnotherConfig(t *testing.T) {
	for name, step := range map[string]struct {
		cfg      Config
		examine  Examiner
		add, sub bool
	}{
		"nothing":           {Config{}, says("my_"), false, false},
		"more workers":      {Config{MaxWorkers: 7, MaxTools: 9, Prefix: "x_"}, says("my_"), false, false},
		"another prefix":    {Config{}, says("your_"), true, true},
		"one is taken":      {Config{}, says("my_", "add"), true, false},
		"none can be used":  {Config{}, func([]tool.Discovered) ([]Admitted, error) { return nil, errors.New("none") }, true, true},
		"another heartbeat": {Config{Heartbeat: time.Minute}, says("my_"), true, true},
		"another bound":     {Config{MaxInFlight: 1}, says("my_"), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, Config{}, says("my_"))
				add, sub := r.hire(registration("one", "add")), r.hire(registration("two", "sub"))
				step.cfg.Name = "local"
				r.Adopt(step.cfg, step.examine)
				if add.told() != step.add || sub.told() != step.sub {
					t.Errorf("they were told otherwise than %v, %v", step.add, step.sub)
				}
				if r.Workers() != 2 {
					t.Error("one was sent away")
				}
			})
		})
	}
}

// A worker that was told goodbye goes on until the stream is there that it opens in its
// place, and ends with the call that it has. It does not count as a worker then.
func TestAWorkerThatComesAgainForAnotherConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{MaxWorkers: 1, Heartbeat: time.Hour}, says(""))
		old := r.hire(eager(registration("agent", "add")))
		held := r.call(t.Context(), to("add"))
		id := old.invoked().GetInvocationId()
		r.Adopt(Config{Name: "local", MaxWorkers: 1, Heartbeat: time.Minute}, says("my_"))
		if !old.told() {
			t.Fatal("it was not told")
		}
		meanwhile := r.call(t.Context(), to("add"))
		old.answer(old.invoked().GetInvocationId(), "by the old one")
		(<-meanwhile).text(t, "by the old one")

		renewed := r.join(eager(registration("agent", "add")))
		registered := renewed.next().GetRegistered()
		if registered.GetHeartbeatInterval().AsDuration() != time.Minute || registered.GetTools()[0].GetToolName() != "my_add" {
			t.Errorf("it is told %v", registered)
		}
		after := r.call(t.Context(), to("add"))
		renewed.answer(renewed.invoked().GetInvocationId(), "by the new one")
		(<-after).text(t, "by the new one")
		if err := <-r.join(registration("agent", "add")).served; status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a second one: %v", err)
		}
		old.answer(id, "held")
		(<-held).text(t, "held")
		if err := <-old.served; err != nil {
			t.Errorf("its stream ended with %v", err)
		}
		if len(r.downs) > 0 {
			t.Errorf("meanwhile it was down: %v", r.downs)
		}
	})
}

// eager wants two calls at a time.
func eager(r *sidecallv1.WorkerRegister) *sidecallv1.WorkerRegister {
	r.MaxInFlight = 2
	return r
}

// A worker that comes again in vain ends with what it has; its tool, of which nothing is
// known any more, is there again with the next config.
func TestAWorkerThatCannotComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, says(""))
		old, other := r.hire(registration("agent", "add")), r.hire(registration("other", "sub"))
		held := r.call(t.Context(), to("add"))
		id := old.invoked().GetInvocationId()
		r.Adopt(Config{Name: "local"}, says("", "add"))
		if last := r.lists[len(r.lists)-1]; len(last) != 1 || last[0].Name != "sub" {
			t.Errorf("the tools are %v", last)
		}
		if !old.told() || other.told() {
			t.Error("who was told is not who should be")
		}
		if err := <-r.join(registration("agent", "add")).served; status.Code(err) != codes.AlreadyExists {
			t.Errorf("it comes again: %v", err)
		}
		old.answer(id, "held")
		(<-held).text(t, "held")
		if err := <-old.served; err != nil {
			t.Errorf("its stream ended with %v", err)
		}
		r.Adopt(Config{Name: "local"}, says(""))
		r.hire(registration("agent", "add"))
		if last := r.lists[len(r.lists)-1]; len(last) != 2 || other.told() {
			t.Errorf("the tools are %v", last)
		}
	})
}

// A call that waits for a place goes to the worker that has come in the other's place.
func TestACallInLineIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, says(""))
		old := r.hire(registration("agent", "add")) // with one place
		first := r.call(t.Context(), to("add"))
		id := old.invoked().GetInvocationId()
		second := r.call(t.Context(), to("add"))
		r.Adopt(Config{Name: "local"}, says("my_"))
		if !old.told() {
			t.Fatal("it was not told")
		}
		renewed := r.hire(registration("agent", "add"))
		renewed.answer(renewed.invoked().GetInvocationId(), "second")
		(<-second).text(t, "second")
		old.answer(id, "first")
		(<-first).text(t, "first")
	})
}

// Whoever tries again later goes on meanwhile.
func TestARefusalThatDoesNotLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, says(""))
		old := r.hire(registration("agent", "add"))
		r.Adopt(Config{Name: "local"}, says("my_"))
		if !old.told() {
			t.Error("it was not told")
		}
		r.Refuse("", registration("agent", "add"), status.Error(codes.ResourceExhausted, "full"))
		r.Refuse("another", registration("agent", "add"), status.Error(codes.PermissionDenied, "no"))
		if synctest.Wait(); r.Workers() != 1 {
			t.Error("it was sent away")
		}
		r.Refuse("", registration("agent", "add"), status.Error(codes.PermissionDenied, "no"))
		if err := <-old.served; err != nil {
			t.Errorf("its stream ended with %v", err)
		}
	})
}

// Nor is it a refusal that a stream ends which waits for the end of another worker.
func TestAStreamThatEndsInItsWaitDismissesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, says(""))
		old := r.hire(registration("agent", "add")).alive()
		r.Adopt(Config{Name: "local"}, says("my_"))
		if !old.told() {
			t.Error("it was not told")
		}
		r.hire(otherwise("other", "add"))
		again := r.join(registration("agent", "add"))
		again.idle()
		again.cancel()
		if err := <-again.served; status.Code(err) != codes.Canceled {
			t.Errorf("its stream ended with %v", err)
		}
		if synctest.Wait(); r.Workers() != 2 {
			t.Error("the one before was sent away")
		}
	})
}

// A worker that was told goodbye goes on with the tool that it has declared, and is given
// no call of the one that another worker declares under its name meanwhile.
func TestAToolThatIsDeclaredOtherwiseAfterAGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, says(""))
		old := []*peer{r.hire(registration("agent", "add")).alive(), r.hire(registration("agent", "add")).alive()}
		before := r.checked(to("add"))
		r.Adopt(Config{Name: "local"}, says("my_"))
		if !old[0].told() || !old[1].told() {
			t.Error("they were not told")
		}
		renewed := r.hire(otherwise("agent", "add")).alive() // and one of the old ones goes
		last := old[0]
		if synctest.Wait(); last.ctx.Err() != nil {
			last = old[1]
		}
		first, second := r.call(t.Context(), to("add")), r.call(t.Context(), to("add"))
		if !last.idle() {
			t.Fatal("it is given a call")
		}
		renewed.answer(renewed.invoked().GetInvocationId(), "first")
		renewed.answer(renewed.invoked().GetInvocationId(), "second")
		(<-first).text(t, "first")
		(<-second).text(t, "second")
		held := r.call(t.Context(), before)
		last.answer(last.invoked().GetInvocationId(), "by the old one")
		(<-held).text(t, "by the old one")
	})
}

// The renewed registration is refused while calls run and wait: what runs has its own
// result, what waits in line is given to nobody and says so.
func TestCallsThatWaitWhileARenewedRegistrationIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, says(""))
		old := r.hire(registration("agent", "add")).alive() // with one place
		runs := r.call(t.Context(), to("add"))
		id := old.invoked().GetInvocationId()
		var line []<-chan answered
		for range 3 {
			line = append(line, r.call(t.Context(), to("add")))
		}
		// A tool of that name stands elsewhere now.
		r.Adopt(Config{Name: "local"}, says("", "add"))
		if !old.told() {
			t.Fatal("it was not told")
		}
		if err := <-r.join(registration("agent", "add")).served; status.Code(err) != codes.AlreadyExists {
			t.Fatalf("it comes again: %v", err)
		}
		for i, waits := range line {
			failure := (<-waits).want(t, tool.CodeDependencyUnavailable, tool.NotExecuted)
			if failure.RetryAfter <= 0 || failure.Constraint != "no worker serves it now" {
				t.Errorf("call %d says %+v", i, failure)
			}
		}
		old.answer(id, "ran")
		(<-runs).text(t, "ran")
		if err := <-old.served; err != nil {
			t.Errorf("its stream ended with %v", err)
		}
	})
}

// One that comes again relieves the one of its own client, and no other of its name.
func TestAWorkerRelievesTheOneOfItsClient(t *testing.T) {
	of := func(client string) *sidecallv1.WorkerRegister {
		return with(registration("agent", "add"), func(r *sidecallv1.WorkerRegister) { r.Client = client })
	}
	for range 10 { // any of them could be taken
		synctest.Test(t, func(t *testing.T) {
			r := start(t, Config{Heartbeat: time.Hour}, says(""))
			one, two := r.hire(of("one")), r.hire(of("two"))
			r.Adopt(Config{Name: "local", Heartbeat: time.Minute}, says("my_"))
			if !one.told() || !two.told() {
				t.Fatal("they were not told")
			}
			r.hire(of("two"))
			if err := <-two.served; err != nil || one.ctx.Err() != nil {
				t.Fatalf("its stream ended with %v, that of the other with %v", err, one.ctx.Err())
			}
			call := to("add")
			call.Client = "one"
			done := r.call(t.Context(), call)
			one.answer(one.invoked().GetInvocationId(), "by the old one")
			(<-done).text(t, "by the old one")
		})
	}
}
