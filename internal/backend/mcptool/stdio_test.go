package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/transcript"
)

// stdio is the test binary as a server in some mode.
func stdio(t testing.TB, mode string, l ledger) Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Command: []string{self},
		Env:     []string{modeVariable + "=" + mode, ledgerVariable + "=" + l.path},
		Timing:  quick,
	}
}

func TestStdioCallsAndDiscovers(t *testing.T) {
	r := run(t, stdio(t, "plain", newLedger(t)))
	tools := r.up()
	byName := make(map[string]tool.Discovered)
	for _, d := range tools {
		byName[d.Name] = d
	}
	if len(byName) < 14 {
		t.Fatalf("only %d tools over several pages: %v", len(byName), byName)
	}
	echo := byName["echo"]
	if echo.Effect != tool.ReadOnly || !echo.Claimed || echo.Annotations["title"] != "Echo" || echo.Annotations["openWorldHint"] != "true" {
		t.Errorf("echo is %+v", echo)
	}
	if want := `{"type":"object","properties":{"z":{"maximum":9007199254740993},"a":{}}}`; string(echo.InputSchema) != want {
		t.Errorf("the schema lost its order or its numbers: %s", echo.InputSchema)
	}
	if pay := byName["pay"]; pay.Claimed || pay.Effect != tool.NonIdempotent || pay.Description != "the tool pay" {
		t.Errorf("pay is %+v", pay)
	}

	args := `{"n":9007199254740993,"text":"<b>&\u2028"}`
	reply, f := r.call("echo", args)
	if f != nil {
		t.Fatal(f)
	}
	if string(reply.Text) != args || !reply.JSON || reply.Size != int64(len(args)) {
		t.Errorf("reply is %s, %+v", reply.Text, reply)
	}
	if got := r.want("echo", ""); got != "{}" {
		t.Errorf("no arguments arrive as %q", got)
	}
}

func TestManyCallsShareOneProcess(t *testing.T) {
	r := run(t, stdio(t, "plain", newLedger(t)))
	r.up()
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			args := fmt.Sprintf(`{"i":%d,"pad":%q}`, i, strings.Repeat("x", 10_000))
			reply, f := r.call("echo", args)
			if f != nil || string(reply.Text) != args {
				t.Errorf("call %d: %v", i, f)
			}
		})
	}
	wg.Wait()
}

func TestNoiseOnStandardOutputIsDropped(t *testing.T) {
	var log transcript.Transcript
	cfg := stdio(t, "banner", newLedger(t))
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r := run(t, cfg)
	r.up()
	if got := r.want("chatter", `{}`); got != "said" {
		t.Errorf("the tool says %q", got)
	}
	if got := r.want("echo", `{"a":1}`); got != `{"a":1}` {
		t.Errorf("after the noise: %q", got)
	}
	if got := strings.Count(log.String(), "standard output"); got != 1 {
		t.Errorf("noise is logged %d times:\n%s", got, log.String())
	}
	if got := strings.Count(log.String(), "\n"); got > 100 {
		t.Errorf("the server's chatter made %d lines of log", got)
	}
}

func TestAProcessThatExitsInMidCall(t *testing.T) {
	for target, entry := range map[string]string{"pay and exit": "paid", "panic": "panicking"} {
		t.Run(target, func(t *testing.T) {
			l := newLedger(t)
			r := run(t, stdio(t, "plain", l))
			r.up()
			_, f := r.call(target, `{}`)
			wantFailure(t, f, tool.CodeDependencyUnavailable, tool.Ambiguous, "connection_lost")
			if err := r.down(); !strings.Contains(err.Error(), "exit status") {
				t.Errorf("it is down because %v", err)
			}
			r.up()
			if got := r.want("echo", `{}`); got != `{}` {
				t.Errorf("after the restart: %q", got)
			}
			if n := l.count(entry); n != 1 {
				t.Errorf("the tool ran %d times", n)
			}
		})
	}
}

func TestAllCallsInFlightEndWithTheProcess(t *testing.T) {
	l := newLedger(t)
	r := run(t, stdio(t, "plain", l))
	r.up()
	failures := make(chan *tool.Failure)
	for range 5 {
		go func() {
			_, f := r.call("wait", `{}`)
			failures <- f
		}()
	}
	waitFor(t, "all wait", func() bool { return l.count("waiting") == 5 })
	_, f := r.call("pay and exit", `{}`)
	wantFailure(t, f, tool.CodeDependencyUnavailable, tool.Ambiguous, "connection_lost")
	for range 5 {
		wantFailure(t, <-failures, tool.CodeDependencyUnavailable, tool.Ambiguous, "connection_lost")
	}
}

func TestWhileDownCallsFailAtOnceAndDidNotRun(t *testing.T) {
	cfg := stdio(t, "exit at start", newLedger(t))
	cfg.Timing.RestartBase, cfg.Timing.RestartMax = time.Hour, time.Hour
	r := run(t, cfg)
	if err := r.down(); !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("it is down because %v", err)
	}
	waitFor(t, "the next try is due", func() bool { return !r.state.Load().due.IsZero() })
	_, f := r.call("echo", `{}`)
	wantFailure(t, f, tool.CodeDependencyUnavailable, tool.NotExecuted, "backend_down")
	if !f.Unreached {
		t.Error("it does not concern the connection")
	}
	// The delay is drawn between half of it and the whole.
	if !f.KnownDown || f.RetryAfter > time.Hour || f.RetryAfter < time.Minute {
		t.Errorf("known to be down: %v, the next try in %v", f.KnownDown, f.RetryAfter)
	}
}

// A server that has died and is started again is waited for: the call that comes
// meanwhile is made, once.
func TestACallWaitsForAServerThatIsStartedAgain(t *testing.T) {
	l := newLedger(t)
	cfg := stdio(t, "plain", l)
	cfg.Timing.RestartBase = 400 * time.Millisecond
	r := run(t, cfg)
	r.up()
	_, f := r.call("pay and exit", `{}`)
	wantFailure(t, f, tool.CodeDependencyUnavailable, tool.Ambiguous, "connection_lost")
	if why := r.down(); why == nil {
		t.Fatal("it is not down")
	}
	if got := r.want("echo", `{"while":"down"}`); got != `{"while":"down"}` {
		t.Errorf("got %q", got)
	}
	if n := l.count("echo"); n > 1 {
		t.Errorf("it ran %d times", n)
	}
}

// What a new process says of its tools is heard before anything is sent to it: they
// may be refused for it.
func TestToolsAreHeardOfBeforeTheyAreCalled(t *testing.T) {
	l := newLedger(t)
	b, err := New(func() Config { c := stdio(t, "plain", l); c.Name = "test"; return c }())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	heard, goOn := make(chan struct{}), make(chan struct{})
	go b.Run(context.Background(), func([]tool.Discovered, error) {
		close(heard)
		<-goOn
	})
	<-heard
	_, f := b.Invoke(t.Context(), backend.Invocation{Target: "echo", Args: []byte(`{}`)})
	if f == nil || f.Evidence != tool.NotExecuted {
		t.Errorf("it was called before its list was heard: %v", f)
	}
	close(goOn)
	for {
		if _, f = b.Invoke(t.Context(), backend.Invocation{Target: "echo", Args: []byte(`{}`)}); f == nil {
			return
		}
		if f.Evidence != tool.NotExecuted {
			t.Fatal(f)
		}
	}
}

func TestBeforeRunNothingIsCalled(t *testing.T) {
	b, err := New(stdio(t, "plain", newLedger(t)))
	if err != nil {
		t.Fatal(err)
	}
	_, f := b.Invoke(context.Background(), backend.Invocation{Target: "echo"})
	wantFailure(t, f, tool.CodeDependencyUnavailable, tool.NotExecuted, "backend_down")
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.Run(context.Background(), func([]tool.Discovered, error) { t.Error("a closed backend runs") })
}

func TestAProgramThatIsMissing(t *testing.T) {
	r := run(t, Config{Command: []string{"/nonexistent/server"}, Timing: quick})
	if err := r.down(); !strings.Contains(err.Error(), "no such file") {
		t.Errorf("it is down because %v", err)
	}
}

func TestACallWaitsForASlowStart(t *testing.T) {
	r := run(t, stdio(t, "slow start", newLedger(t)))
	waitFor(t, "the connection is being opened", func() bool { return r.state.Load().opening != nil })
	if got := r.want("echo", `{}`); got != `{}` {
		t.Errorf("got %q", got)
	}
}

func TestAServerThatHangsAtStartIsGivenUp(t *testing.T) {
	cfg := stdio(t, "hang", newLedger(t))
	cfg.Timing.Connect = 100 * time.Millisecond
	r := run(t, cfg)
	if err := r.down(); !strings.Contains(err.Error(), "did not answer the handshake within 100ms") {
		t.Errorf("it is down because %v", err)
	}
}

func TestAServerThatHangsLaterIsRestarted(t *testing.T) {
	for name, disturb := range map[string]func(*running){
		"when idle": func(*running) {},
		"after a call that timed out": func(r *running) {
			var f *tool.Failure
			for range 3 { // in one of which the machine may stand still before anything is sent
				ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				_, f = r.Invoke(ctx, backend.Invocation{Target: "echo", Args: []byte(`{}`)})
				cancel()
				if f != nil && f.Evidence != tool.NotExecuted {
					break
				}
			}
			wantFailure(t, f, tool.CodeTimeout, tool.Ambiguous, "timeout")
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := stdio(t, "deaf", newLedger(t))
			cfg.Timing.PingEvery, cfg.Timing.Ping = 50*time.Millisecond, 50*time.Millisecond
			if name != "when idle" {
				cfg.Timing.PingEvery = time.Hour
			}
			r := run(t, cfg)
			r.up()
			disturb(r)
			if err := r.down(); !strings.Contains(err.Error(), "does not answer pings") {
				t.Errorf("it is down because %v", err)
			}
			r.up()
		})
	}
}

func TestAServerThatReadsNothingDoesNotHoldCallsUp(t *testing.T) {
	cfg := stdio(t, "deaf", newLedger(t))
	cfg.Timing.PingEvery, cfg.Timing.Ping = time.Hour, time.Hour
	r := run(t, cfg)
	r.up()
	// More than a pipe holds, so that writing waits.
	args := fmt.Appendf(nil, `{"pad":%q}`, strings.Repeat("x", 1<<20))
	var wg sync.WaitGroup
	evidence := make(chan tool.Evidence, 2)
	for range 2 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			_, f := r.Invoke(ctx, backend.Invocation{Target: "echo", Args: args})
			if f == nil {
				t.Error("no failure")
				return
			}
			evidence <- f.Evidence
		})
	}
	wg.Wait()
	// One was written in part and the other not at all: neither can have run.
	for range 2 {
		if got := <-evidence; got != tool.NotExecuted {
			t.Errorf("a call that was not written whole is %s", got)
		}
	}
}

func TestCancellationReachesTheServer(t *testing.T) {
	l := newLedger(t)
	r := run(t, stdio(t, "plain", l))
	r.up()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan *tool.Failure, 1)
	go func() {
		_, f := r.Invoke(ctx, backend.Invocation{Target: "wait", Args: []byte(`{}`)})
		done <- f
	}()
	waitFor(t, "the tool runs", func() bool { return l.count("waiting") == 1 })
	cancel()
	f := <-done
	wantFailure(t, f, tool.CodeCancelled, tool.Ambiguous, "cancelled")
	if !f.CallerFault {
		t.Error("a cancelled call counts against the server")
	}
	waitFor(t, "the server hears of it", func() bool { return l.count("cancelled") == 1 })

	_, f = r.Invoke(ctx, backend.Invocation{Target: "pay", Args: []byte(`{}`)})
	wantFailure(t, f, tool.CodeCancelled, tool.NotExecuted, "cancelled")
	if l.count("paid") != 0 {
		t.Error("a call that was cancelled before it began ran")
	}
}

func TestProgressAndTraceContextTravel(t *testing.T) {
	r := run(t, stdio(t, "plain", newLedger(t)))
	r.up()
	var notes []string // all come before the answer
	call := backend.Invocation{Target: "progress", Args: []byte(`{}`), Progress: func(s backend.Sign) {
		notes = append(notes, s.Note)
	}}
	if _, f := r.Invoke(context.Background(), call); f != nil {
		t.Fatal(f)
	}
	if got := fmt.Sprint(notes); got != "[1/2 half way]" {
		t.Errorf("notes are %s", got)
	}

	ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled}))
	carried, err := baggage.Parse("tenant=acme")
	if err != nil {
		t.Fatal(err)
	}
	ctx = baggage.ContextWithBaggage(ctx, carried)
	reply, f := r.Invoke(ctx, backend.Invocation{Target: "meta", Args: []byte(`{}`)})
	if f != nil {
		t.Fatal(f)
	}
	var meta map[string]any
	if err := json.Unmarshal(reply.Text, &meta); err != nil {
		t.Fatal(err)
	}
	if want := "00-01000000000000000000000000000000-0200000000000000-01"; meta["traceparent"] != want || meta["baggage"] != "tenant=acme" {
		t.Errorf("_meta is %v", meta)
	}
}

func TestChangedToolsAreReadAgain(t *testing.T) {
	r := run(t, stdio(t, "plain", newLedger(t)))
	before := len(r.up())
	r.want("grow", `{}`)
	tools := r.up()
	if len(tools) < before+10 {
		// The changes may have been seen in two steps.
		tools = r.up()
	}
	if len(tools) != before+10 {
		t.Errorf("%d tools became %d", before, len(tools))
	}
	if got := r.want("grown 3", `{}`); got != "grown" {
		t.Errorf("a new tool says %q", got)
	}
}

func TestAHugeResultCostsOnlyItsOwnCall(t *testing.T) {
	l := newLedger(t)
	cfg := stdio(t, "plain", l)
	cfg.MaxMessage = 100_000
	r := run(t, cfg)
	r.up()
	_, f := r.call("big", `{"bytes":1000000}`)
	wantFailure(t, f, tool.CodeInvalidOutput, tool.Definite, "invalid_output")
	if got := len(r.want("big", `{"bytes":50000}`)); got != 50_000 {
		t.Errorf("the next result has %d bytes", got)
	}
	reply, f := r.Invoke(context.Background(), backend.Invocation{Target: "big", Args: []byte(`{"bytes":50000}`), MaxBytes: 1000})
	if f != nil || len(reply.Text) != 1000 || !reply.Cut || reply.Size != 50_000 {
		t.Errorf("bounded: %d bytes of %d, cut %v, %v", len(reply.Text), reply.Size, reply.Cut, f)
	}
	if l.count("big") != 3 {
		t.Errorf("the tool ran %d times", l.count("big"))
	}
}

func TestCloseEndsAProcessThatIgnoresEverything(t *testing.T) {
	r := run(t, stdio(t, "stubborn", newLedger(t)))
	r.up()
	conn := r.current().conn
	if err := r.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-conn.gone:
	default:
		t.Error("the process outlives its backend")
	}
	_, f := r.call("echo", `{}`)
	wantFailure(t, f, tool.CodeDependencyUnavailable, tool.NotExecuted, "backend_down")
}

func TestTheServerSeesOnlyTheListedEnvironment(t *testing.T) {
	t.Setenv("SIDECALL_TEST_SECRET", "s3cret")
	log := new(transcript.Transcript)
	run(t, Config{Command: []string{"sh", "-c", "env >&2; exit 9"}, Env: []string{"GREETING=hello"}, Timing: quick,
		Logger: slog.New(slog.NewTextHandler(log, nil))})
	waitFor(t, "it printed its environment", func() bool { return strings.Contains(log.String(), "GREETING=hello") })
	if strings.Contains(log.String(), "s3cret") {
		t.Error("the environment of Sidecall was inherited")
	}
}
