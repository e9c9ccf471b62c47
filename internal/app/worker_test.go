package app

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// hall is a running sidecar, and a connection to it.
type hall struct {
	*Sidecar
	t       *testing.T
	head    string // of the config: what does not change
	tools   sidecallv1.ToolServiceClient
	workers sidecallv1.WorkerServiceClient
}

// opened runs a sidecar with the given backends and what else a config has. It offers
// the given profiles.
func opened(t *testing.T, config string, profiles ...string) *hall {
	t.Helper()
	socket := filepath.Join(harness.ShortDir(t), "s.sock")
	listen := fmt.Sprintf("%q", "unix://"+socket)
	if len(profiles) > 0 {
		listen = fmt.Sprintf("{address: %s, profiles: [%s]}", listen, strings.Join(profiles, ", "))
	}
	head := fmt.Sprintf("listen: [%s]\nadmin: off\nstore: {memory: {}}\nidentity: {require: []}\n", listen)
	s := started(t, parsed(t, head+config), quiet())
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // nothing is sent any more
	return &hall{s, t, head, sidecallv1.NewToolServiceClient(conn), sidecallv1.NewWorkerServiceClient(conn)}
}

// stops ends the sidecar with the test.
func (h *hall) stops() *hall {
	h.t.Cleanup(func() {
		if err := h.Stop(context.Background()); err != nil {
			h.t.Error(err)
		}
	})
	return h
}

// hand is a worker that does what the test says.
type hand struct {
	sidecallv1.WorkerService_ServeClient
	t   *testing.T
	end context.CancelFunc
}

// apply opens a stream and registers.
func (h *hall) apply(register *sidecallv1.WorkerRegister) *hand {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h.t.Cleanup(cancel)
	stream, err := h.workers.Serve(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	w := &hand{stream, h.t, cancel}
	_ = w.Send(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Register{Register: register}}) // what is wrong with it says Recv
	return w
}

// hired is apply of one who is taken in.
func (h *hall) hired(register *sidecallv1.WorkerRegister) (*hand, *sidecallv1.WorkerRegistered) {
	h.t.Helper()
	w := h.apply(register)
	command, err := w.Recv()
	if err != nil || command.GetRegistered() == nil {
		h.t.Fatalf("%v, %v", command, err)
	}
	return w, command.GetRegistered()
}

func (w *hand) invoked() *sidecallv1.WorkerInvoke {
	w.t.Helper()
	command, err := w.Recv()
	if err != nil || command.GetInvoke() == nil {
		w.t.Fatalf("%v, %v", command, err)
	}
	return command.GetInvoke()
}

func (w *hand) answer(result *sidecallv1.WorkerResult) {
	w.t.Helper()
	if err := w.Send(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Result{Result: result}}); err != nil {
		w.t.Fatal(err)
	}
}

func (h *hall) asks(id, name, args string) <-chan *sidecallv1.ExecuteToolResponse {
	done := make(chan *sidecallv1.ExecuteToolResponse, 1)
	go func() {
		res, err := h.tools.ExecuteTool(context.Background(), &sidecallv1.ExecuteToolRequest{ToolUseId: id, ToolName: name, ArgumentsJson: args})
		if err != nil {
			h.t.Error(err)
		}
		done <- res
	}()
	return done
}

func adder() *sidecallv1.WorkerRegister {
	return &sidecallv1.WorkerRegister{Worker: "agent", ProtocolVersion: 1, MaxInFlight: 4, Tools: []*sidecallv1.WorkerTool{{
		Name: "add", Description: "Adds.", Effect: sidecallv1.Effect_EFFECT_NON_IDEMPOTENT,
		InputSchemaJson: `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`,
	}}}
}

// The sidecar is ready before any worker has come; a worker's tools can be called over
// the connection by which it came, and its word comes through as it is.
func TestAnAgentThatIsItsOwnWorker(t *testing.T) {
	h := opened(t, "backends: {local: {worker: {}, prefix: my_}}").stops()
	if !h.parts.catalog.Snapshot().Discovered() {
		t.Error("it waits for workers")
	}
	if res := <-h.asks("1", "my_add", `{"a":1}`); res.GetError().GetCode() != "DEPENDENCY_UNAVAILABLE" {
		t.Errorf("before there is a worker: %v", res)
	}
	listed, err := h.tools.ListTools(t.Context(), &sidecallv1.ListToolsRequest{})
	if down := listed.GetUnavailableBackends(); err != nil || len(down) != 1 || down[0].GetReason() != "no worker has come yet" {
		t.Errorf("before there is a worker: %v, %v", listed, err)
	}
	w, told := h.hired(adder())
	if told.GetMaxInFlight() != 4 || told.GetHeartbeatInterval().AsDuration() != 5*time.Second || told.GetMaxMessageBytes() != 4<<20 || told.GetTools()[0].GetToolName() != "my_add" {
		t.Errorf("told %v", told)
	}
	if res := <-h.asks("2", "my_add", `{"a":"one"}`); res.GetError().GetCode() != "INVALID_ARGS" {
		t.Errorf("arguments that do not fit: %v", res)
	}
	done := h.asks("3", "my_add", `{"a":1}`)
	in := w.invoked()
	if in.GetTool() != "add" || in.GetToolUseId() != "3" || in.GetAttempt() != 1 || in.GetDeadline().AsDuration() <= 0 || len(in.GetIdempotencyKey()) < 32 {
		t.Errorf("the worker was told %v", in)
	}
	w.answer(&sidecallv1.WorkerResult{InvocationId: in.GetInvocationId(), Content: "<b>2</b>"})
	if res := <-done; res.GetContent() != "<b>2</b>" || res.GetIsError() {
		t.Errorf("got %v", res)
	}
	if res := <-h.asks("3", "my_add", `{"a":1}`); !res.GetReplayed() || res.GetContent() != "<b>2</b>" {
		t.Errorf("sent again: %v", res)
	}
}

// A worker that is lost in mid-call leaves an outcome that nobody knows, and the id is
// never run again; a call that may be repeated goes to another worker.
func TestAWorkerThatIsLostInMidCall(t *testing.T) {
	h := opened(t, "backends: {local: {worker: {}}}").stops()
	w, _ := h.hired(adder())
	done := h.asks("1", "add", `{"a":1}`)
	w.invoked()
	w.end()
	if res := <-done; res.GetError().GetCode() != "OUTCOME_UNKNOWN" {
		t.Fatalf("got %v", res)
	}
	again, _ := h.hired(adder())
	if res := <-h.asks("1", "add", `{"a":1}`); res.GetError().GetCode() != "OUTCOME_UNKNOWN" {
		t.Errorf("sent again: %v", res)
	}
	keyed := adder()
	keyed.Tools[0].Name, keyed.Tools[0].Effect = "mul", sidecallv1.Effect_EFFECT_KEYED
	first, _ := h.hired(keyed)
	second, _ := h.hired(keyed)
	done = h.asks("2", "mul", `{"a":1}`)
	one := first.invoked()
	first.end()
	two := second.invoked()
	if two.GetAttempt() != 2 || two.GetIdempotencyKey() != one.GetIdempotencyKey() {
		t.Errorf("the second was told %v after %v", two, one)
	}
	second.answer(&sidecallv1.WorkerResult{InvocationId: two.GetInvocationId(), Content: "1"})
	if res := <-done; res.GetContent() != "1" || res.GetIsError() {
		t.Errorf("got %v", res)
	}
	// Nothing had come to the one who was there all the time.
	done = h.asks("3", "add", `{"a":1}`)
	if in := again.invoked(); in.GetToolUseId() != "3" {
		t.Errorf("it was sent %v", in)
	}
	again.end()
	<-done
}

// An attempt is of the tool that its call was checked by: a worker that has come since and
// declares it otherwise is not sent it.
func TestAnAttemptOfAToolThatIsAnotherNow(t *testing.T) {
	t.Parallel()
	h := opened(t, "backends: {local: {worker: {}}}").stops()
	w, _ := h.hired(adder())
	done := h.asks("1", "add", `{"a":1}`)
	w.answer(&sidecallv1.WorkerResult{InvocationId: w.invoked().GetInvocationId(), NotRun: true, RetryAfter: durationpb.New(time.Second)})
	_ = w.Send(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Leave{Leave: &sidecallv1.WorkerLeave{}}}) // what is wrong with it says Recv
	harness.WaitFor(t, "the worker to go", func() bool { return h.parts.generation.Load().workers()["local"].Workers() == 0 })
	changed := adder()
	changed.Tools[0].InputSchemaJson = `{"type":"object","properties":{"b":{"type":"integer"}},"required":["b"]}`
	next, _ := h.hired(changed)
	if res := <-done; res.GetError().GetCode() != "DEPENDENCY_UNAVAILABLE" || res.GetError().GetConstraint() != "no worker serves it now" {
		t.Errorf("got %v", res)
	}
	h.asks("2", "add", `{"b":1}`)
	if in := next.invoked(); in.GetToolUseId() != "2" {
		t.Errorf("it was sent %v", in)
	}
}

// A registration that the config, or what is there, does not allow is refused whole.
func TestRegistrationsThatAreRefused(t *testing.T) {
	h := opened(t, `
backends:
  local: {worker: {}, exclude: [sub]}
  other: {worker: {}}
  sh: {exec: {env: [PATH]}}
tools: {greet: {backend: sh, exec: {argv: [echo, hi]}}}
retention: 10m
`).stops()
	for name, c := range map[string]struct {
		change func(r *sidecallv1.WorkerRegister)
		code   codes.Code
		says   string
	}{
		"no backend":         {func(r *sidecallv1.WorkerRegister) { r.Backend = "" }, codes.InvalidArgument, "there are several worker backends: name one of local, other"},
		"not its backend":    {func(r *sidecallv1.WorkerRegister) { r.Backend = "sh" }, codes.NotFound, `there is no worker backend "sh": want one of local, other`},
		"another version":    {func(r *sidecallv1.WorkerRegister) { r.ProtocolVersion = 7 }, codes.FailedPrecondition, "version 7"},
		"a tool of the file": {func(r *sidecallv1.WorkerRegister) { r.Tools[1].Name = "greet" }, codes.AlreadyExists, `the name "greet" is that of a tool of the backend sh`},
		"our own":            {func(r *sidecallv1.WorkerRegister) { r.Tools[1].Name = "read_output" }, codes.AlreadyExists, "Sidecall itself"},
		"a schema": {func(r *sidecallv1.WorkerRegister) {
			r.Tools[1].InputSchemaJson = `{"properties":{"a":{"type":"intger"}}}`
		}, codes.InvalidArgument, `tool "mul": input schema at /properties/a/type: must be one of`},
		"a pattern": {func(r *sidecallv1.WorkerRegister) {
			r.Tools[1].InputSchemaJson = `{"properties":{"a":{"pattern":"("}}}`
		}, codes.InvalidArgument, `tool "mul": input schema at /properties/a/pattern`},
		"an output schema": {func(r *sidecallv1.WorkerRegister) { r.Tools[1].OutputSchemaJson = `{"type":7}` }, codes.InvalidArgument, "tool mul"},
		"a long call":      {func(r *sidecallv1.WorkerRegister) { r.Tools[1].Deadline = durationpb.New(time.Hour) }, codes.InvalidArgument, "tool mul: deadline: it is 1h0m0s"},
		"a large tool": {func(r *sidecallv1.WorkerRegister) {
			r.Tools[1].InputSchemaJson = `{"properties":{"` + strings.Repeat("x", 300<<10) + `":{}}}`
		}, codes.InvalidArgument, "tool mul"},
	} {
		t.Run(name, func(t *testing.T) {
			register := adder()
			register.Backend = "local"
			register.Tools = append(register.Tools, &sidecallv1.WorkerTool{Name: "mul"})
			c.change(register)
			_, err := h.apply(register).Recv()
			if status.Code(err) != c.code || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 8<<10 {
				t.Errorf("got %.500v; want %s: %s", err, c.code, c.says)
			}
			if names := h.parts.catalog.Snapshot().Names(); len(names) != 2 {
				t.Errorf("there are %v", names)
			}
		})
	}
	first := h.apply(nil)
	_ = first.Send(&sidecallv1.WorkerMessage{}) // it has been refused
	if _, err := first.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("nobody: %v", err)
	}
	left := adder()
	left.Backend, left.Tools[0].Name = "local", "sub"
	if _, told := h.hired(left); !told.GetTools()[0].GetLeftOut() {
		t.Errorf("one that the config leaves out: %v", told)
	}
	if res := <-h.asks("1", "sub", `{"a":1}`); !res.GetIsError() {
		t.Errorf("it can be called: %v", res)
	}
	taken := adder()
	taken.Backend = "other"
	h.hired(taken)
	taken.Backend = "local"
	if _, err := h.apply(taken).Recv(); status.Code(err) != codes.AlreadyExists || !strings.Contains(err.Error(), "the backend other") {
		t.Errorf("a name of the other backend: %v", err)
	}
}

// The worker's word on its tools counts where the config says nothing.
func TestWhatCountsOfAWorkersWord(t *testing.T) {
	h := opened(t, `
backends:
  trusted: {worker: {}, prefix: a_, tools: {sub: {effect: idempotent, deadline: 7s, trust: untrusted, on_cancel: finish}}}
  doubted: {worker: {trust_effects: false}, prefix: b_, trust: untrusted, effects: {"*": keyed}}
`).stops()
	for _, name := range []string{"trusted", "doubted"} {
		register := adder()
		register.Backend = name
		register.Tools[0].Effect = sidecallv1.Effect_EFFECT_READ_ONLY
		register.Tools = append(register.Tools, &sidecallv1.WorkerTool{
			Name: "sub", Effect: sidecallv1.Effect_EFFECT_READ_ONLY, Sequential: true, Polling: true, FailsCleanly: true, CancelWithCaller: true,
			AttemptTimeout: durationpb.New(20 * time.Second), Deadline: durationpb.New(40 * time.Second),
		})
		h.hired(register)
	}
	for name, want := range map[string]string{
		"a_add": "read_only 30s 1m0s untrusted=false", "b_add": "keyed 30s 1m0s untrusted=true",
		"a_sub": "idempotent 7s 7s untrusted=true sequential polling clean", "b_sub": "keyed 20s 40s untrusted=true sequential polling clean cancels",
	} {
		route, ok := h.parts.catalog.Snapshot().Lookup(name)
		if !ok {
			t.Fatalf("there is no %s", name)
		}
		p := route.Tool.Policy
		got := fmt.Sprintf("%s %s %s untrusted=%v", route.Tool.Effect, p.AttemptTimeout, p.Deadline, p.Untrusted)
		for _, said := range []struct {
			word string
			is   bool
		}{{" sequential", p.Sequential}, {" polling", p.Polling}, {" clean", p.FailsCleanly}, {" cancels", p.CancelWithCaller}} {
			if said.is {
				got += said.word
			}
		}
		if got != want {
			t.Errorf("%s is %s; want %s", name, got, want)
		}
	}
}

// An agent that is kept to some tools cannot offer others.
func TestAnAddressWithProfiles(t *testing.T) {
	h := opened(t, "backends: {local: {worker: {}, prefix: my_}}\nprofiles: {reader: {tools: [my_a*]}, other: {tools: [no]}}\ndefault_profile: reader\n", "other", "reader").stops()
	register := adder()
	register.Tools = append(register.Tools, &sidecallv1.WorkerTool{Name: "sub"})
	if _, err := h.apply(register).Recv(); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), `tool "sub": no profile of this address (other, reader) may call it`) {
		t.Errorf("got %v", err)
	}
	h.hired(adder())
}

// A pinned tool that says something else of itself when it is back is refused.
func TestAWorkersToolThatIsPinned(t *testing.T) {
	h := opened(t, fmt.Sprintf("backends: {local: {worker: {}, pin: true}}\npins: {path: %q}\n", filepath.Join(t.TempDir(), "pins"))).stops()
	w, _ := h.hired(adder())
	w.end()
	harness.WaitFor(t, "the worker to go", func() bool { return h.parts.generation.Load().workers()["local"].Workers() == 0 })
	changed := adder()
	changed.Tools[0].Description = "Adds, and tells somebody."
	h.hired(changed)
	if res := <-h.asks("1", "add", `{"a":1}`); res.GetError().GetCode() != "PERMISSION_DENIED" {
		t.Errorf("got %v", res)
	}
}

// A worker that hangs up and registers another definition at once is taken in, every
// time.
func TestAWorkerThatRegistersAnewAtOnce(t *testing.T) {
	h := opened(t, "backends: {local: {worker: {}}}").stops()
	for n := range 30 {
		register := adder()
		register.Tools[0].Description = fmt.Sprint("Adds, version ", n)
		w, _ := h.hired(register)
		w.end()
	}
}

// Where there is no worker backend, workers are told so.
func TestNoPlaceForWorkers(t *testing.T) {
	h := opened(t, "backends: {sh: {exec: {}}}").stops()
	if _, err := h.apply(adder()).Recv(); status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "no worker backend is configured") {
		t.Errorf("got %v", err)
	}
}

// A sidecar that stops says goodbye, waits for the calls that workers have, and ends
// their streams well.
func TestASidecarWithWorkersDrains(t *testing.T) {
	h := opened(t, "backends: {local: {worker: {}}}")
	w, _ := h.hired(adder())
	done := h.asks("1", "add", `{"a":1}`)
	in := w.invoked()
	stopped := make(chan error, 1)
	go func() { stopped <- h.Stop(context.Background()) }()
	if command, err := w.Recv(); err != nil || command.GetGoodbye() == nil {
		t.Fatalf("%v, %v", command, err)
	}
	harness.WaitFor(t, "the drain", h.parts.drain.Draining)
	if _, err := h.apply(adder()).Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("another worker got %v", err)
	}
	w.answer(&sidecallv1.WorkerResult{InvocationId: in.GetInvocationId(), Content: "2"})
	if res := <-done; res.GetContent() != "2" {
		t.Errorf("got %v", res)
	}
	if _, err := w.Recv(); err != io.EOF { //nolint:errorlint // a stream that ends well returns exactly this
		t.Errorf("its stream ended with %v", err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A worker that reads and never answers keeps nobody longer than a stop may take.
func TestAStopThatCannotWaitForAWorker(t *testing.T) {
	h := opened(t, "backends: {local: {worker: {}}}")
	w, _ := h.hired(adder())
	done := h.asks("1", "add", `{"a":1}`)
	w.invoked()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := h.Stop(ctx); err == nil || !strings.Contains(err.Error(), "1 request still in flight") {
		t.Errorf("it said %v", err)
	}
	if res := <-done; res.GetError().GetCode() != "OUTCOME_UNKNOWN" {
		t.Errorf("got %v", res)
	}
}
