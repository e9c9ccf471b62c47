package app

import (
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// take has a config take over, but for where it listens and what is kept.
func (h *hall) take(config string) {
	h.t.Helper()
	if err := h.succession.take(h.t.Context(), parsed(h.t, h.head+config), func(string) {}); err != nil {
		h.t.Fatal(err)
	}
}

// toldGoodbye is what a worker hears next.
func (w *hand) toldGoodbye() {
	w.t.Helper()
	if command, err := w.Recv(); err != nil || command.GetGoodbye() == nil {
		w.t.Fatalf("%v, %v; want a goodbye", command, err)
	}
}

// done answers the call that a worker is sent next.
func (w *hand) done(content string) {
	w.t.Helper()
	w.answer(&sidecallv1.WorkerResult{InvocationId: w.invoked().GetInvocationId(), Content: content})
}

// ended says that the stream has ended well.
func (w *hand) ended() {
	w.t.Helper()
	if command, err := w.Recv(); !errors.Is(err, io.EOF) {
		w.t.Fatalf("%v, %v; want the end of the stream", command, err)
	}
}

func (h *hall) content(id, name, want string) {
	h.t.Helper()
	if res := <-h.asks(id, name, `{"a":1}`); res.GetContent() != want || res.GetIsError() {
		h.t.Errorf("%s: %v; want %s", id, res, want)
	}
}

// A worker stays over configs that say nothing else of what it was told, and has its
// calls to the end.
func TestAWorkerStaysOverAReload(t *testing.T) {
	const kept = "backends: {local: {worker: {}}}\n"
	h := opened(t, kept).stops()
	w, _ := h.hired(adder())
	held := h.asks("held", "add", `{"a":1}`)
	id := w.invoked().GetInvocationId()
	for name, config := range map[string]string{
		"the same":       kept,
		"another tool":   "backends: {local: {worker: {}}, sh: {exec: {env: [PATH]}}}\ntools: {cat: {backend: sh, exec: {argv: [cat]}}}\n",
		"another policy": "backends: {local: {worker: {}, tools: {add: {max_output_chars: 9}}}}\n",
		"more workers":   "backends: {local: {worker: {max_workers: 7, max_tools: 7}, breaker: {failures: 7}}}\n",
		"a profile":      kept + "profiles: {p: {tools: [add]}}\ndefault_profile: p\n",
	} {
		h.take(config)
		answered := h.asks(name, "add", `{"a":1}`)
		w.done("same") // the next thing that it hears is the call
		if res := <-answered; res.GetContent() != "same" {
			t.Errorf("%s: %v", name, res)
		}
	}
	w.answer(&sidecallv1.WorkerResult{InvocationId: id, Content: "held"})
	if res := <-held; res.GetContent() != "held" || res.GetIsError() || !res.GetRecorded() {
		t.Errorf("the call that it had: %v", res)
	}
	if n := h.parts.generation.Load().workers()["local"].Workers(); n != 1 {
		t.Errorf("there are %d workers", n)
	}
}

// A worker of whose tools a config says something else is told, and told what when it
// comes again. Nobody waits for that, and what it has it has to the end.
func TestAWorkerOfWhichTheConfigSaysSomethingElse(t *testing.T) {
	for name, step := range map[string]struct {
		config string
		is     string
		effect sidecallv1.Effect
		beats  time.Duration
	}{
		"a prefix":  {"{worker: {}, prefix: my_}", "my_add", sidecallv1.Effect_EFFECT_NON_IDEMPOTENT, 5 * time.Second},
		"an effect": {"{worker: {}, effects: {add: idempotent}}", "add", sidecallv1.Effect_EFFECT_IDEMPOTENT, 5 * time.Second},
		"its pulse": {"{worker: {heartbeat: 1m}}", "add", sidecallv1.Effect_EFFECT_NON_IDEMPOTENT, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			h := opened(t, "backends: {local: {worker: {}}}\n").stops()
			old, _ := h.hired(adder())
			held := h.asks("held", "add", `{"a":1}`)
			id := old.invoked().GetInvocationId()
			h.take("backends: {local: " + step.config + "}\n")
			old.toldGoodbye()
			meanwhile := h.asks("meanwhile", step.is, `{"a":1}`)
			old.done("old")
			if res := <-meanwhile; res.GetContent() != "old" {
				t.Errorf("before it has come again: %v", res)
			}
			renewed, told := h.hired(adder())
			if is := told.GetTools()[0]; is.GetToolName() != step.is || is.GetEffect() != step.effect || told.GetHeartbeatInterval().AsDuration() != step.beats {
				t.Errorf("it is told %v", told)
			}
			after := h.asks("after", step.is, `{"a":1}`)
			renewed.done("new")
			if res := <-after; res.GetContent() != "new" {
				t.Errorf("when it has come again: %v", res)
			}
			old.answer(&sidecallv1.WorkerResult{InvocationId: id, Content: "held"})
			if res := <-held; res.GetContent() != "held" || res.GetIsError() {
				t.Errorf("the call that it had: %v", res)
			}
			old.ended()
		})
	}
}

// A tool that a config leaves out, or gives a name of which to another backend, is gone
// for calls that come later, and its worker hears why.
func TestAWorkerWhoseToolAConfigTakes(t *testing.T) {
	h := opened(t, "backends: {local: {worker: {}}}\n").stops()
	w, _ := h.hired(adder())
	h.take("backends: {local: {worker: {}, exclude: [add]}}\n")
	w.toldGoodbye()
	if res := <-h.asks("1", "add", `{"a":1}`); res.GetError().GetCode() != "UNKNOWN_TOOL" {
		t.Errorf("a tool that is left out: %v", res)
	}
	out, told := h.hired(adder())
	if !told.GetTools()[0].GetLeftOut() {
		t.Errorf("it is told %v", told)
	}
	w.ended()
	h.take("backends: {local: {worker: {}}, sh: {exec: {env: [PATH]}}}\ntools: {add: {backend: sh, exec: {argv: [echo, sh]}}}\n")
	out.toldGoodbye()
	h.content("2", "add", "sh\n")
	if _, err := h.apply(adder()).Recv(); status.Code(err) != codes.AlreadyExists {
		t.Errorf("it comes again: %v", err)
	}
	out.ended()
	h.take("backends: {local: {worker: {}}}\n")
	in, _ := h.hired(adder())
	answered := h.asks("3", "add", `{"a":1}`)
	in.done("in")
	if res := <-answered; res.GetContent() != "in" {
		t.Errorf("when the name is free again: %v", res)
	}
}

// A backend that comes with a config takes workers; one that goes with a config tells its
// own, keeps them until their calls have ended, and no longer.
func TestWorkerBackendsThatComeAndGo(t *testing.T) {
	const none = "backends: {sh: {exec: {}}}\n"
	h := opened(t, none).stops()
	if _, err := h.apply(adder()).Recv(); status.Code(err) != codes.Unimplemented {
		t.Errorf("where there is none: %v", err)
	}
	h.take("backends: {local: {worker: {}}}\n")
	first, _ := h.hired(adder())
	held := h.asks("held", "add", `{"a":1}`)
	id := first.invoked().GetInvocationId()

	h.take("backends: {remote: {worker: {}}}\n") // under another name: to be on the safe side another one
	first.toldGoodbye()
	second, _ := h.hired(adder())
	answered := h.asks("1", "add", `{"a":1}`)
	second.done("second")
	if res := <-answered; res.GetContent() != "second" {
		t.Errorf("at the one that came: %v", res)
	}
	named := adder()
	named.Backend = "local"
	if _, err := h.apply(named).Recv(); status.Code(err) != codes.NotFound {
		t.Errorf("at the one that went: %v", err)
	}
	first.answer(&sidecallv1.WorkerResult{InvocationId: id, Content: "held"})
	if res := <-held; res.GetContent() != "held" || res.GetIsError() {
		t.Errorf("the call that it had: %v", res)
	}
	first.ended()

	h.take(none)
	second.toldGoodbye()
	second.ended()
	if res := <-h.asks("2", "add", `{"a":1}`); res.GetError().GetCode() != "UNKNOWN_TOOL" {
		t.Errorf("without workers: %v", res)
	}
	if _, err := h.apply(adder()).Recv(); status.Code(err) != codes.Unimplemented {
		t.Errorf("where there is none any more: %v", err)
	}
}

// What counts for an address are the profiles of today.
func TestTheProfilesOfAWorkersAddressAreReadAnew(t *testing.T) {
	h := opened(t, "backends: {local: {worker: {}}}\nprofiles: {p: {tools: [add]}}\n", "p").stops()
	w, _ := h.hired(adder())
	h.take("backends: {local: {worker: {heartbeat: 7s}}}\nprofiles: {p: {tools: [sub]}}\n")
	w.toldGoodbye()
	if _, err := h.apply(adder()).Recv(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("it comes again: %v", err)
	}
	w.ended()
}

// What came too late is counted over all configs: a counter does not fall.
func TestLateResultsAreCountedOverAllConfigs(t *testing.T) {
	h := opened(t, "backends: {local: {worker: {}}}\n").stops()
	w, _ := h.hired(adder())
	w.answer(&sidecallv1.WorkerResult{InvocationId: "of nothing"})
	harness.WaitFor(t, "it to be counted", func() bool { return h.parts.late.Load() == 1 })
	h.take("backends: {other: {worker: {}}}\n")
	w, _ = h.hired(adder())
	w.answer(&sidecallv1.WorkerResult{InvocationId: "of nothing"})
	harness.WaitFor(t, "it to be counted", func() bool { return h.parts.late.Load() == 2 })
}
