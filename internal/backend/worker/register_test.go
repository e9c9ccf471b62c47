package worker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// A registration that is wrong in anything is refused whole, in a sentence that says
// what is wrong with it.
func TestBadRegistrations(t *testing.T) {
	one := func(change func(*sidecallv1.WorkerTool)) func(*sidecallv1.WorkerRegister) {
		return func(r *sidecallv1.WorkerRegister) { change(r.GetTools()[1]) }
	}
	for name, c := range map[string]struct {
		change func(*sidecallv1.WorkerRegister)
		code   codes.Code
		says   string
	}{
		"another version": {func(r *sidecallv1.WorkerRegister) { r.ProtocolVersion = 2 }, codes.FailedPrecondition, "speaks version 2 of the protocol, and this sidecar version 1"},
		"no version":      {func(r *sidecallv1.WorkerRegister) { r.ProtocolVersion = 0 }, codes.FailedPrecondition, "speaks version 0"},
		"no name":         {func(r *sidecallv1.WorkerRegister) { r.Worker = "" }, codes.InvalidArgument, `worker: the name of a worker is 1 to 64 of A-Z a-z 0-9 . _ -, not ""`},
		"a bad name":      {func(r *sidecallv1.WorkerRegister) { r.Worker = "a b" }, codes.InvalidArgument, `not "a b"`},
		"no places":       {func(r *sidecallv1.WorkerRegister) { r.MaxInFlight = -1 }, codes.InvalidArgument, "max_in_flight: it is -1"},
		"a bad client":    {func(r *sidecallv1.WorkerRegister) { r.Client = "a b" }, codes.InvalidArgument, `client: a client calls itself 1 to 64 of A-Z a-z 0-9 . _ -, not "a b"`},
		"no tools":        {func(r *sidecallv1.WorkerRegister) { r.Tools = nil }, codes.InvalidArgument, "the worker has none"},
		"too many tools":  {func(r *sidecallv1.WorkerRegister) { r.Tools = make([]*sidecallv1.WorkerTool, 4) }, codes.InvalidArgument, "tools: the worker has 4, and the backend local may have 3"},
		"no tool at all":  {func(r *sidecallv1.WorkerRegister) { r.Tools[1] = nil }, codes.InvalidArgument, `tool "": a name is`},
		"twice":           {one(func(t *sidecallv1.WorkerTool) { t.Name = "add" }), codes.InvalidArgument, "tool add: it is registered twice"},
		"a tool's name":   {one(func(t *sidecallv1.WorkerTool) { t.Name = "a.b" }), codes.InvalidArgument, `tool "a.b": a name is 1 to 64 of A-Z a-z 0-9 _ -, the prefix my_ included`},
		"a long name":     {one(func(t *sidecallv1.WorkerTool) { t.Name = strings.Repeat("x", 62) }), codes.InvalidArgument, "a name is 1 to 64"},
		"no UTF-8":        {one(func(t *sidecallv1.WorkerTool) { t.Name = "a\xff" }), codes.InvalidArgument, "a name is 1 to 64"},
		"an effect":       {one(func(t *sidecallv1.WorkerTool) { t.Effect = 17 }), codes.InvalidArgument, "tool sub: effect: there is no effect 17: want read_only, idempotent, keyed or non_idempotent"},
		"a schema":        {one(func(t *sidecallv1.WorkerTool) { t.InputSchemaJson = "{" }), codes.InvalidArgument, "tool sub: input_schema_json: it is not a JSON object"},
		"a null schema":   {one(func(t *sidecallv1.WorkerTool) { t.InputSchemaJson = "null" }), codes.InvalidArgument, "it is not a JSON object: it is null"},
		"two schemas":     {one(func(t *sidecallv1.WorkerTool) { t.InputSchemaJson = "{} {}" }), codes.InvalidArgument, "something behind the JSON object"},
		"a string":        {one(func(t *sidecallv1.WorkerTool) { t.InputSchemaJson = `{"type":"string"}` }), codes.InvalidArgument, `tool sub: input_schema_json: arguments are an object: want type object, not "string"`},
		"an output":       {one(func(t *sidecallv1.WorkerTool) { t.OutputSchemaJson = "[]" }), codes.InvalidArgument, "tool sub: output_schema_json: it is not a JSON object"},
		"annotations":     {one(func(t *sidecallv1.WorkerTool) { t.Annotations = map[string]string{"title": strings.Repeat("x", 401)} }), codes.InvalidArgument, "tool sub: annotations"},
		"no time":         {one(func(t *sidecallv1.WorkerTool) { t.Deadline = durationpb.New(0) }), codes.InvalidArgument, "tool sub: deadline: it is 0s; want 1ms to 24h0m0s"},
		"too much time":   {one(func(t *sidecallv1.WorkerTool) { t.AttemptTimeout = durationpb.New(25 * time.Hour) }), codes.InvalidArgument, "tool sub: attempt_timeout: it is 25h"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, Config{MaxTools: 3, Prefix: "my_"}, nil)
				p := r.join(with(registration("agent", "add", "sub"), c.change))
				err := <-p.served
				if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.says) {
					t.Errorf("got %v; want %s: %s", err, c.code, c.says)
				}
				if len(r.lists) > 0 || r.Workers() > 0 || len(r.roster.known) > 0 {
					t.Error("something of it was registered")
				}
			})
		})
	}
}

// What cannot be used is found by who compiles it, before any of it is there.
func TestARegistrationThatIsExamined(t *testing.T) {
	for want, refusal := range map[codes.Code]error{
		codes.InvalidArgument: errors.New("tool sub: input_schema: not a\nJSON Schema"),
		codes.AlreadyExists:   fmt.Errorf("looking at it: %w", &TakenError{Name: "sub", By: "the backend shop"}),
	} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, Config{}, func(tools []tool.Discovered) ([]Admitted, error) {
				admitted := make([]Admitted, len(tools))
				for i, tool := range tools {
					if admitted[i] = (Admitted{Name: "my_" + tool.Name, LeftOut: tool.Name == "add"}); tool.Name == "sub" {
						return nil, refusal
					}
				}
				return admitted, nil
			})
			p := r.join(registration("good", "add", "mul"))
			if told := p.next().GetRegistered().GetTools(); len(told) != 2 || told[0].GetToolName() != "my_add" || !told[0].GetLeftOut() || told[1].GetLeftOut() ||
				told[1].GetEffect() != sidecallv1.Effect_EFFECT_NON_IDEMPOTENT {
				t.Errorf("told %v", told)
			}
			err := <-r.join(registration("bad", "div", "sub")).served
			if status.Code(err) != want || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "sub") {
				t.Errorf("got %v; want %s", err, want)
			}
			if len(r.lists) != 1 || len(r.lists[0]) != 2 {
				t.Errorf("there are %v", r.lists)
			}
		})
	}
}

// Workers of a tool declare the same, in whatever order its schema is written.
func TestWorkersOfATool(t *testing.T) {
	declare := func() *sidecallv1.WorkerRegister {
		return with(registration("agent", "add"), func(r *sidecallv1.WorkerRegister) {
			t := r.GetTools()[0]
			t.Description, t.Effect, t.Annotations = "Adds.", sidecallv1.Effect_EFFECT_READ_ONLY, map[string]string{"title": "Add"}
			t.InputSchemaJson = `{"type":"object","properties":{"a":{"type":"integer","maximum":1.0}}}`
			t.OutputSchemaJson, t.AttemptTimeout = `{"type":"object"}`, durationpb.New(time.Second)
		})
	}
	for what, change := range map[string]func(*sidecallv1.WorkerTool){
		"": func(t *sidecallv1.WorkerTool) {
			t.InputSchemaJson = ` {"properties": {"a":{"maximum":1.0,"type":"integer"}}, "type":"object"}`
		},
		"description":        func(t *sidecallv1.WorkerTool) { t.Description = "Adds them." },
		"input_schema_json":  func(t *sidecallv1.WorkerTool) { t.InputSchemaJson = "" },
		"output_schema_json": func(t *sidecallv1.WorkerTool) { t.OutputSchemaJson = `{"type":"array"}` },
		"effect":             func(t *sidecallv1.WorkerTool) { t.Effect = sidecallv1.Effect_EFFECT_UNSPECIFIED },
		"annotations":        func(t *sidecallv1.WorkerTool) { t.Annotations = nil },
		"sequential":         func(t *sidecallv1.WorkerTool) { t.Sequential = true },
		"polling":            func(t *sidecallv1.WorkerTool) { t.Polling = true },
		"fails_cleanly":      func(t *sidecallv1.WorkerTool) { t.FailsCleanly = true },
		"cancel_with_caller": func(t *sidecallv1.WorkerTool) { t.CancelWithCaller = true },
		"attempt_timeout":    func(t *sidecallv1.WorkerTool) { t.AttemptTimeout = nil },
		"deadline":           func(t *sidecallv1.WorkerTool) { t.Deadline = durationpb.New(time.Second) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, Config{}, nil)
				first := r.hire(declare()).alive()
				other := declare()
				other.Worker, other.Tools = "other", append(other.GetTools(), &sidecallv1.WorkerTool{Name: "sub"})
				change(other.GetTools()[0])
				if what == "" {
					r.hire(other)
					return
				}
				err := <-r.join(other).served
				if want := "tool add: its " + what + " is another one than that of the worker agent"; status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v; want %s", err, want)
				}
				if len(r.lists) != 1 || len(r.lists[0]) != 1 {
					t.Errorf("there are %v", r.lists)
				}
				// Without the first it is a tool like any other.
				first.leave()
				<-first.served
				r.hire(other)
				if len(r.lists) != 2 || len(r.lists[1]) != 2 {
					t.Errorf("then there are %v", r.lists)
				}
			})
		})
	}
}

// otherwise is a registration of a tool with another effect.
func otherwise(worker, name string) *sidecallv1.WorkerRegister {
	return with(registration(worker, name), func(r *sidecallv1.WorkerRegister) { r.Tools[0].Effect = sidecallv1.Effect_EFFECT_KEYED })
}

// A worker that hangs up and comes again with another definition may be there before its
// end is. It waits for that, and is taken in.
func TestAWorkerThatComesBeforeItsEnd(t *testing.T) {
	for name, end := range map[string]func(first *peer){
		"it hangs up":                        func(first *peer) { first.cancel() },
		"it closes the stream":               func(first *peer) { close(first.closed) },
		"it leaves":                          func(first *peer) { first.leave() },
		"what it said before comes after":    func(first *peer) { first.beat(); first.beat(); first.cancel() },
		"it says nothing any more":           func(*peer) {},
		"it was heard once and then no more": func(first *peer) { first.beat() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, Config{}, nil)
				first := r.hire(registration("agent", "add"))
				second := r.join(otherwise("agent", "add"))
				if !second.idle() {
					t.Fatal("it did not wait")
				}
				end(first)
				if second.next().GetRegistered() == nil {
					t.Error("it is not registered")
				}
				if last := r.lists[len(r.lists)-1]; len(last) != 1 || last[0].Effect != tool.Keyed {
					t.Errorf("there are %v", last)
				}
			})
		})
	}
}

// One that lives is not waited for any longer than it takes to know; whether it lives is
// not known for ever.
func TestAWorkerInTheWayOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		first := r.hire(registration("agent", "add")).alive()
		began := time.Now()
		if err := <-r.join(otherwise("agent", "add")).served; status.Code(err) != codes.FailedPrecondition || time.Since(began) > 2*defaultHeartbeat {
			t.Errorf("one that lives: %v after %s", err, time.Since(began))
		}
		gone := r.join(otherwise("agent", "add"))
		gone.idle()
		gone.cancel()
		if err := <-gone.served; status.Code(err) != codes.Canceled {
			t.Errorf("one that does not wait: %v", err)
		}
		first.cancel()
		<-first.served
		r.hire(registration("agent", "add")) // which says nothing
		waits := r.join(otherwise("agent", "add"))
		waits.idle()
		time.Sleep(3*defaultHeartbeat - time.Second)
		r.hire(registration("agent", "add")) // and another one
		if err := <-waits.served; status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "try again") {
			t.Errorf("one of which nothing is known: %v", err)
		}
	})
}

// So many wait at a time and no more, and none of them any longer than the backend is
// there.
func TestWorkersThatWaitForOthersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		r.hire(registration("agent", "add"))
		waiting := make([]*peer, maxOutlasting)
		for i := range waiting {
			waiting[i] = r.join(otherwise("agent", "add"))
		}
		synctest.Wait()
		if err := <-r.join(otherwise("agent", "add")).served; status.Code(err) != codes.Unavailable {
			t.Errorf("one more: %v", err)
		}
		r.End()
		for _, p := range waiting {
			if err := <-p.served; status.Code(err) != codes.Unavailable {
				t.Errorf("at the end: %v", err)
			}
		}
		if n := r.outlasting.Load(); n != 0 {
			t.Errorf("%d wait still", n)
		}
	})
}

// A registration that nobody waits for any more is not looked at, and does not wait for
// those that are.
func TestRegistrationsOfWorkersThatHaveHungUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		examined, looked := 0, make(chan struct{})
		r := start(t, Config{}, func(tools []tool.Discovered) ([]Admitted, error) {
			examined++
			<-looked
			return make([]Admitted, len(tools)), nil
		})
		first := r.join(registration("agent", "add"))
		synctest.Wait()
		for range 3 * maxQueued {
			gone := r.join(registration("agent", "sub"))
			gone.idle()
			gone.cancel()
			if err := <-gone.served; status.Code(err) != codes.Canceled {
				t.Fatalf("its stream ended with %v", err)
			}
		}
		close(looked)
		if first.next().GetRegistered() == nil || examined != 1 {
			t.Errorf("examined %d times", examined)
		}
	})
}

// So many registrations wait for another to be looked at and no more; none of them waits
// for longer than the backend is there.
func TestRegistrationsThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looked := make(chan struct{})
		r := start(t, Config{}, func(tools []tool.Discovered) ([]Admitted, error) {
			<-looked
			return make([]Admitted, len(tools)), nil
		})
		r.join(registration("agent", "add"))
		synctest.Wait()
		waiting := make([]*peer, maxQueued)
		for i := range waiting {
			waiting[i] = r.join(registration("agent", "add"))
		}
		synctest.Wait()
		if err := <-r.join(registration("agent", "add")).served; status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "try again") {
			t.Errorf("one more: %v", err)
		}
		r.End()
		for _, p := range waiting {
			if err := <-p.served; status.Code(err) != codes.Unavailable {
				t.Errorf("at the end: %v", err)
			}
		}
		close(looked)
	})
}

// A tool that its workers do not have any more is forgotten, when nobody serves it.
func TestToolsThatAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{MaxTools: 3}, nil)
		old := r.hire(registration("agent", "add", "sub")).alive()
		other := r.hire(registration("other", "mul")).alive()
		renewed := r.hire(registration("agent", "add")).alive() // the old one serves sub still
		if len(r.roster.known) != 3 {
			t.Errorf("known are %d", len(r.roster.known))
		}
		if err := <-r.join(registration("agent", "add", "div")).served; status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a fourth tool: %v", err)
		}
		for _, p := range []*peer{old, other, renewed} {
			p.leave()
			<-p.served
		}
		r.hire(registration("agent", "add", "div")).alive()
		last := r.lists[len(r.lists)-1]
		if len(last) != 3 || last[0].Name != "add" || last[1].Name != "div" || last[2].Name != "mul" {
			t.Errorf("there are %v", last)
		}
	})
}

// A list is told once, however many workers come with it.
func TestWorkersThatBringNothingNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		examined := 0
		r := start(t, Config{MaxWorkers: 3}, func(tools []tool.Discovered) ([]Admitted, error) {
			examined++
			return make([]Admitted, len(tools)), nil
		})
		for range 3 {
			r.hire(registration("agent", "add")).alive()
		}
		if err := <-r.join(registration("agent", "add")).served; status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a fourth worker: %v", err)
		}
		if examined != 1 || len(r.lists) != 1 {
			t.Errorf("examined %d times, told %d times", examined, len(r.lists))
		}
	})
}

// What a worker wishes goes with its tool.
func TestWishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Config{}, nil)
		r.hire(with(registration("agent", "add", "sub"), func(r *sidecallv1.WorkerRegister) {
			r.Tools[0].Sequential, r.Tools[0].Deadline, r.Tools[0].Effect = true, durationpb.New(time.Minute), sidecallv1.Effect_EFFECT_KEYED
			r.Tools[0].InputSchemaJson, r.Tools[1].InputSchemaJson = ` { "additionalProperties":false}`, `{ }`
		}))
		add, sub := r.lists[0][0], r.lists[0][1]
		if add.Wishes == nil || *add.Wishes != (tool.Wishes{Sequential: true, Deadline: time.Minute}) || add.Effect != tool.Keyed || !add.Claimed {
			t.Errorf("add is %+v", add)
		}
		if string(add.InputSchema) != `{"type":"object","additionalProperties":false}` || string(sub.InputSchema) != `{"type":"object"}` {
			t.Errorf("their schemas are %s and %s", add.InputSchema, sub.InputSchema)
		}
		if sub.Wishes != nil || sub.Claimed {
			t.Errorf("sub is %+v", sub)
		}
	})
}

// A message that is none ends the stream.
func TestMessagesThatAreNone(t *testing.T) {
	for _, m := range []*sidecallv1.WorkerMessage{
		{}, {Message: &sidecallv1.WorkerMessage_Register{Register: registration("agent", "sub")}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, Config{}, nil)
			p := r.hire(registration("agent", "add"))
			p.say(m)
			if err := <-p.served; status.Code(err) != codes.InvalidArgument {
				t.Errorf("%v: %v", m, err)
			}
		})
	}
}

// Who comes before there is anybody to tell waits for that; who comes after the end is
// sent away.
func TestBeforeAndAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{Backend: New(Config{Name: "local"}), t: t}
		p := r.join(registration("agent", "add"))
		if !p.idle() {
			t.Fatal("it was let in")
		}
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-p.served; status.Code(err) != codes.Unavailable {
			t.Errorf("got %v", err)
		}
		if err := <-r.join(registration("agent", "add")).served; status.Code(err) != codes.Unavailable {
			t.Errorf("got %v", err)
		}
	})
}
