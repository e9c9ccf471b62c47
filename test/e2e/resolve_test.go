//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// till is an upstream that can be asked how often it has carried out a key:
// GET /look?key=K. The rest is scripted.
type till struct {
	*upstream.Upstream

	URL string
	// lease of its calls. Default 2 s.
	lease time.Duration
}

func startTill(t *testing.T) till {
	t.Helper()
	up := upstream.New(upstream.NewLedger())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /look", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"executions":%d}`, up.Ledger.Executions(r.URL.Query().Get("key")))
	})
	mux.Handle("/", up)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		up.Close()
		server.Close()
	})
	return till{Upstream: up, URL: server.URL}
}

// notRunAfter is how long the tests' verification does not believe that a call
// has not run.
const notRunAfter = 3 * time.Second

// tools has act and pay, which must not be repeated, and look, which tells of
// both. pay is verified by itself.
func (u till) tools(store string) string {
	return store + fmt.Sprintf(`lease: %s
backends:
  up: {http: {base_url: %q, allow_private: true}, breaker: {failures: 1000000}, max_in_flight: 1000}
tools:
  look: {backend: up, description: Looks., http: {method: GET, path: /look}, input_schema: {type: object, properties: {key: {type: string}}, required: [key]}}
  act: {backend: up, description: Does it., http: {method: POST, path: /act}, verify_with: look}
  pay:
    backend: up
    description: Pays.
    http: {method: POST, path: /pay}
    attempt_timeout: 4s
    verify: {tool: look, args: {key: "args.key"}, done_when: "result.executions > 0", not_run_when: "result.executions == 0", not_run_after: %s, result: "{'executions': result.executions}"}
`, cmp.Or(u.lease, 2*time.Second), u.URL, notRunAfter)
}

// onBothStores runs a test on the embedded store and on a real Redis.
func onBothStores(t *testing.T, test func(t *testing.T, store string)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, "")
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, fmt.Sprintf("store: {redis: {addrs: [%q]}}\n", harness.Redis(t)))
	})
}

// resolve runs sidecall resolve and wants an exit code.
func resolve(t *testing.T, s *harness.Sidecar, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := harness.CLI(t, append([]string{"resolve", "--addr", s.Operator}, args...)...)
	if code != wantCode {
		t.Fatalf("sidecall resolve %q: exit code %d, want %d\n%s%s", args, code, wantCode, stdout, stderr)
	}
	return stdout, stderr
}

// me is the user that runs the test, as the sidecar's system names it.
func me(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}

// unknownIDs are the calls that sidecall resolve --json lists.
func unknownIDs(t *testing.T, s *harness.Sidecar) []string {
	t.Helper()
	out, _ := resolve(t, s, 0, "--json")
	return idsOf(t, out)
}

func idsOf(t *testing.T, listing string) []string {
	t.Helper()
	var calls []struct {
		ID string `json:"tool_use_id"`
	}
	if err := json.Unmarshal([]byte(listing), &calls); err != nil {
		t.Fatalf("%v in %s", err, listing)
	}
	ids := make([]string, len(calls))
	for i, call := range calls {
		ids[i] = call.ID
	}
	return ids
}

func wantUnknown(t *testing.T, s *harness.Sidecar, ids ...string) {
	t.Helper()
	if got := unknownIDs(t, s); fmt.Sprint(got) != fmt.Sprint(ids) {
		t.Errorf("unknown are %q, want %q", got, ids)
	}
}

// payOf is a call of the tool pay.
func payOf(id string) *sidecallv1.ExecuteToolRequest {
	req := callOf(id)
	req.ToolName = "pay"
	return req
}

// The answer of a call that has happened is lost; a person finds it out.
func TestResolveAsDone(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		s := harness.Start(t, up.tools(store))
		up.Script("/act", upstream.CloseAfter(), upstream.Echo())
		lost := s.Call(callOf("order-1"))
		wantError(t, lost, "OUTCOME_UNKNOWN")
		if hint := lost.GetError().GetHint(); !strings.Contains(hint, `call look with {"key":"order-1"} to see whether it has.`) {
			t.Errorf("the hint is %q", hint)
		}
		table, said := resolve(t, s, 0)
		says(t, table, "AGE", "act", "order-1", "call look")
		says(t, said, "1 call.", "--as done|not_run")
		wantUnknown(t, s, "order-1")

		// Nobody is asked, so nothing is settled.
		_, said = resolve(t, s, 2, "--id", "order-1", "--as", "done", "--reason", "seen")
		says(t, said, "is told this, with your reason:\n    | act has happened.", ": seen\n", "nothing was settled", "--yes")
		wantUnknown(t, s, "order-1")

		out, _ := resolve(t, s, 0, "--id", "order-1", "--as", "done", "--reason", "it is in the ledger", "--content", "receipt 77", "--by", "ann", "--yes")
		says(t, out, "order-1 is done", "settled by hand", me(t), "it is in the ledger", "receipt 77")
		again := s.Call(callOf("order-1"))
		if again.GetIsError() || !again.GetReplayed() || !strings.HasSuffix(again.GetContent(), "by ann ("+me(t)+"): it is in the ledger\nreceipt 77") {
			t.Errorf("a duplicate got %v", again)
		}
		if r := again.GetResolution(); r.GetBy() != me(t) || r.GetClaimedBy() != "ann" || r.GetReason() != "it is in the ledger" || r.GetState() != stateDone || r.GetAt() == nil {
			t.Errorf("its resolution is %v", r)
		}
		if e := executionOf(t, s, "order-1"); e.GetState() != stateDone || e.GetResult().GetResolution().GetBy() != me(t) || e.GetAttempts() != 1 {
			t.Errorf("the record is %v", e)
		}
		if n := up.Ledger.Executions("order-1"); n != 1 {
			t.Errorf("%d executions, want 1", n)
		}
		wantUnknown(t, s)
		_, said = resolve(t, s, 0)
		says(t, said, "no call is of unknown outcome")

		_, said = resolve(t, s, 1, "--id", "order-1", "--as", "not_run", "--reason", "no, it is not", "--yes")
		says(t, said, "done already", "final")
		_, said = resolve(t, s, 1, "--id", "order-2", "--as", "done", "--reason", "guessed", "--yes")
		says(t, said, "no record")
		says(t, s.Log(), `"msg":"resolve"`, `"from":"unknown","to":"done","epoch":1,"by":"`+me(t)+`","reason":"it is in the ledger","claimed_by":"ann"`)
		if _, page := s.Get("/metrics"); !strings.Contains(page, `sidecall_resolutions_total{by="operator"`) {
			t.Error("the resolution is not counted")
		}
	})
}

// A call that has not happened is given back, and the next request runs it.
func TestResolveAsNotRun(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		s := harness.Start(t, up.tools(store))
		up.Script("/act", upstream.CloseBefore(), upstream.Echo())
		wantError(t, s.Call(callOf("order-1")), "OUTCOME_UNKNOWN")
		wantError(t, s.Call(callOf("order-1")), "OUTCOME_UNKNOWN")
		if n := up.Requests("/act"); n != 1 {
			t.Fatalf("%d requests before it was settled, want 1", n)
		}
		out, _ := resolve(t, s, 0, "--id", "order-1", "--as", "not_run", "--reason", "it is not in the ledger", "--yes", "--json")
		var record struct {
			State  string `json:"state"`
			Result struct {
				Resolution struct{ By, Reason, State string } `json:"resolution"`
			} `json:"result"`
		}
		if err := json.Unmarshal([]byte(out), &record); err != nil || record.State != "EXECUTION_STATE_NOT_RUN" || record.Result.Resolution.Reason != "it is not in the ledger" {
			t.Errorf("%v: %s", err, out)
		}
		ran := s.Call(callOf("order-1"))
		if ran.GetIsError() || ran.GetReplayed() || ran.GetResolution() != nil {
			t.Errorf("the next request got %v", ran)
		}
		if e := executionOf(t, s, "order-1"); e.GetState() != stateDone || e.GetEpoch() != 2 {
			t.Errorf("the record is %v", e)
		}
		if n := up.Ledger.Executions("order-1"); n != 1 || up.Requests("/act") != 2 {
			t.Errorf("%d executions by %d requests, want 1 by 2", n, up.Requests("/act"))
		}
	})
}

// A call that is being run is nobody's to settle.
func TestARunningCallIsNotResolved(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		g := startGate(t)
		s := harness.Start(t, till{URL: g.URL, lease: time.Minute}.tools(store))
		answer := make(chan *sidecallv1.ExecuteToolResponse, 1)
		go func() {
			res, err := execute(t, s, callOf("order-1"))
			if err != nil {
				t.Error(err)
			}
			answer <- res
		}()
		<-g.arrived
		for _, as := range []string{"done", "not_run"} {
			_, said := resolve(t, s, 1, "--id", "order-1", "--as", as, "--reason", "impatient", "--yes")
			says(t, said, "claimed", "lease runs until")
		}
		wantUnknown(t, s)
		close(g.open)
		if res := <-answer; res.GetIsError() || res.GetResolution() != nil || !res.GetRecorded() {
			t.Errorf("the call got %v", res)
		}
		if n := g.effects.Load(); n != 1 {
			t.Errorf("%d effects, want 1", n)
		}
	})
}

// A sidecar dies between claim and settlement; its call is listed and settled.
func TestACallOfAKilledSidecarIsResolved(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		g := startGate(t)
		s := harness.Start(t, till{URL: g.URL}.tools(store))
		ended := make(chan error, 1)
		go func() {
			_, err := execute(t, s, callOf("order-1"))
			ended <- err
		}()
		<-g.arrived
		s.Kill()
		if err := <-ended; err == nil {
			t.Fatal("the caller of a sidecar that was killed got an answer")
		}
		close(g.open)
		s.Run()
		if store == "" {
			wantUnknown(t, s, "order-1") // decided at the start
		} else {
			harness.WaitFor(t, "the lease to end", func() bool { return len(unknownIDs(t, s)) == 1 })
		}
		resolve(t, s, 0, "--id", "order-1", "--as", "done", "--reason", "the effect is there", "--yes")
		again := s.Call(callOf("order-1"))
		if again.GetIsError() || !again.GetReplayed() || again.GetResolution().GetReason() != "the effect is there" {
			t.Errorf("a duplicate got %v", again)
		}
		if n := g.effects.Load(); n != 1 {
			t.Errorf("%d effects, want 1", n)
		}
	})
}

// The owner of a call is stopped past its lease, the call is settled by hand,
// and then the owner goes on: DONE stays as it was settled; NOT_RUN, which was
// wrong, is put right by the owner, who knows that it ran.
func TestALateOwnerMeetsAResolution(t *testing.T) {
	t.Parallel()
	for _, as := range []string{"done", "not_run"} {
		t.Run(as, func(t *testing.T) {
			t.Parallel()
			g := startGate(t)
			store := fmt.Sprintf("store: {redis: {addrs: [%q]}}\n", harness.Redis(t))
			owner := harness.Start(t, till{URL: g.URL}.tools(store))
			other := harness.Start(t, till{URL: g.URL}.tools(store))
			answer := make(chan *sidecallv1.ExecuteToolResponse, 1)
			go func() {
				res, err := execute(t, owner, callOf("order-1"))
				if err != nil {
					t.Error(err)
				}
				answer <- res
			}()
			<-g.arrived
			owner.Signal(syscall.SIGSTOP)
			harness.WaitFor(t, "the lease to end", func() bool { return len(unknownIDs(t, other)) == 1 })
			resolve(t, other, 0, "--id", "order-1", "--as", as, "--reason", "looked at it", "--yes")
			owner.Signal(syscall.SIGCONT)
			close(g.open)
			late := <-answer
			if late.GetIsError() || late.GetResolution() != nil {
				t.Fatalf("the late owner's caller got %v", late)
			}
			again := other.Call(callOf("order-1"))
			switch as {
			case "done":
				if !again.GetReplayed() || again.GetResolution().GetReason() != "looked at it" || late.GetRecorded() {
					t.Errorf("a duplicate got %v, the owner's caller %v", again, late)
				}
			default:
				if !again.GetReplayed() || again.GetContent() != late.GetContent() || again.GetResolution() != nil || !late.GetRecorded() {
					t.Errorf("a duplicate got %v, the owner's caller %v", again, late)
				}
			}
			if n := g.effects.Load(); n != 1 {
				t.Errorf("%d effects, want 1", n)
			}
		})
	}
}

// What has happened and lost its answer is answered all the same, at once.
func TestVerificationFindsWhatHasHappened(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		s := harness.Start(t, up.tools(store))
		for i, step := range []upstream.Step{upstream.CloseAfter(), upstream.ResetAfter(), upstream.Hang(), upstream.ShortBody(), upstream.FailAfter(http.StatusBadGateway)} {
			up.Script("/pay", step)
			id := fmt.Sprint("order-", i)
			res := s.Call(payOf(id))
			if res.GetIsError() || res.GetContent() != `{"executions":1}` || res.GetReplayed() || !res.GetRecorded() || res.GetResolution().GetVerifiedWith() != "look" {
				t.Errorf("step %d: %v", i, res)
			}
			if again := s.Call(payOf(id)); !again.GetReplayed() || again.GetContent() != res.GetContent() || again.GetResolution().GetVerifiedWith() != "look" {
				t.Errorf("step %d, a duplicate: %v", i, again)
			}
			if n := up.Ledger.Executions(id); n != 1 {
				t.Errorf("step %d: %d executions", i, n)
			}
		}
		wantUnknown(t, s)
		says(t, s.Log(), `"msg":"verification"`, `"verified_with":"look","verdict":"happened"`)
	})
}

// A request that was swallowed may still arrive: it is unknown first, and run
// by a duplicate when its time is over, once.
func TestVerificationRunsWhatHasNotHappened(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		s := harness.Start(t, up.tools(store))
		up.Script("/pay", upstream.HangBefore(), upstream.Echo())
		first := s.Call(payOf("order-1"))
		ended := time.Now()
		wantError(t, first, "OUTCOME_UNKNOWN")
		says(t, first.GetError().GetHint(), `call look with {"key":"order-1"}`, "asked look already")
		if got := first.GetRecovery().GetRetryAfter(); got.AsDuration() != notRunAfter {
			t.Errorf("retry_after is %v", got)
		}
		out, _ := resolve(t, s, 0)
		says(t, out, "order-1", "--verify")

		// Duplicates, from now on until it runs.
		var ran *sidecallv1.ExecuteToolResponse
		harness.WaitFor(t, "the call to be run", func() bool {
			res := s.Call(payOf("order-1"))
			if res.GetIsError() {
				wantError(t, res, "OUTCOME_UNKNOWN")
				return false
			}
			ran = res
			return true
		})
		if since := time.Since(ended); since < notRunAfter-time.Second {
			t.Errorf("it ran %v after the first request had ended, which may still have been under way", since)
		}
		if ran.GetReplayed() || ran.GetContent() != `{"key":"order-1","executions":1}` {
			t.Errorf("it got %v", ran)
		}
		if n := up.Ledger.Executions("order-1"); n != 1 || up.Requests("/pay") != 2 {
			t.Errorf("%d executions by %d requests, want 1 by 2", n, up.Requests("/pay"))
		}
		if e := executionOfPay(t, s, "order-1"); e.GetEpoch() != 2 || e.GetState() != stateDone {
			t.Errorf("the record is %v", e)
		}
	})
}

func executionOfPay(t *testing.T, s *harness.Sidecar, id string) *sidecallv1.Execution {
	t.Helper()
	e, err := s.Client.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ToolUseId: id})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A person asks for the verification that nobody has asked for since.
func TestResolveVerify(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		s := harness.Start(t, up.tools(store))
		up.Script("/pay", upstream.HangBefore())
		// No time is left for the verification: nobody has looked yet.
		for _, id := range []string{"there", "absent"} {
			req := payOf(id)
			req.Timeout = durationpb.New(3 * time.Second)
			wantError(t, s.Call(req), "OUTCOME_UNKNOWN")
		}
		if err := up.Ledger.Write("there"); err != nil { // it arrives late
			t.Fatal(err)
		}
		_, said := resolve(t, s, 2, "--id", "there", "--verify", "--yes", "--args", `{"key":"other"}`)
		says(t, said, "other arguments")
		out, _ := resolve(t, s, 0, "--id", "there", "--verify")
		says(t, out, "done: look shows", `{"executions":1}`)
		out, _ = resolve(t, s, 0, "--id", "there", "--verify", "--args", `{"key":"there"}`)
		says(t, out, "done: look shows", `{"executions":1}`)
		if e := executionOfPay(t, s, "there"); e.GetState() != stateUnknown {
			t.Errorf("it was settled, and nobody has said so: %v", e)
		}
		out, _ = resolve(t, s, 0, "--id", "there", "--verify", "--args", `{"key":"there"}`, "--by", "ann", "--yes")
		says(t, out, "there is done")
		if again := s.Call(payOf("there")); !again.GetReplayed() || again.GetContent() != `{"executions":1}` || again.GetResolution().GetBy() != me(t) || again.GetResolution().GetClaimedBy() != "ann" {
			t.Errorf("a duplicate got %v", again)
		}

		harness.WaitFor(t, "not_run_after to pass", func() bool {
			code, out, said := harness.CLI(t, "resolve", "--addr", s.Operator, "--id", "absent", "--verify", "--args", `{"key":"absent"}`, "--yes")
			if code == 1 {
				says(t, out, "too_early", "may still be under way")
				return false
			}
			says(t, out+said, "absent is not_run")
			return code == 0
		})
		up.Script("/pay", upstream.Echo())
		if ran := s.Call(payOf("absent")); ran.GetIsError() || ran.GetReplayed() {
			t.Errorf("it got %v", ran)
		}
		for _, id := range []string{"there", "absent"} {
			if n := up.Ledger.Executions(id); n != 1 {
				t.Errorf("%s: %d executions", id, n)
			}
		}
		_, said = resolve(t, s, 1, "--id", "absent", "--verify", "--args", `{"key":"absent"}`)
		says(t, said, "done already")
	})
}

// Ten thousand unknown calls are listed page by page; neither the sidecar nor
// the command holds them all.
func TestTenThousandUnknownCallsAreListed(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		const calls = 10_000
		up := startTill(t)
		up.lease = time.Minute // of so many calls one is always between its claim and its sending
		up.Script("/act", upstream.StatusBody(http.StatusBadGateway, `{"error":{"message":"`+strings.Repeat("no such luck ", 40)+`"}}`))
		s := harness.New(t, up.tools(store))
		s.Release = true // its memory is measured
		s.Run()
		var group errgroup.Group
		group.SetLimit(32)
		recorded := make([]bool, calls)
		for i := range calls {
			group.Go(func() error {
				res, err := s.Client.ExecuteTool(t.Context(), callOf(fmt.Sprint("order-", i)))
				if err == nil && res.GetError().GetCode() != "OUTCOME_UNKNOWN" {
					err = fmt.Errorf("it is %v", res)
				}
				recorded[i] = res.GetRecorded()
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		before := memoryOf(t, s.PID(), ownMemory)
		began := time.Now()
		out, peak := listWithin(t, s)
		took := time.Since(began)
		after := memoryOf(t, s.PID(), ownMemory)
		seen := map[string]int{}
		for _, id := range idsOf(t, out) {
			seen[id]++
		}
		unrecorded := 0
		for i, recorded := range recorded {
			id := fmt.Sprint("order-", i)
			switch n := seen[id]; {
			case !recorded: // where the machine stood still for longer than a settlement may take
				unrecorded++
			case n != 1:
				t.Errorf("%s is listed %d times", id, n)
			}
			delete(seen, id)
		}
		if len(seen) != 0 || unrecorded > calls/10 {
			t.Errorf("%d answers were not recorded, of %d calls; listed besides: %v", unrecorded, calls, seen)
		}
		t.Logf("%d calls, %d bytes of JSON in %v; the sidecar grew by %d KiB, the command had %d KiB at most",
			calls, len(out), took, (after-before)>>10, peak>>10)
		if grown := after - before; grown > 48<<20 {
			t.Errorf("the sidecar grew by %d MiB", grown>>20)
		}
		if peak < 1<<20 {
			t.Errorf("the command's memory was not measured: %d bytes", peak)
		}
		if peak > 96<<20 {
			t.Errorf("the command had %d MiB", peak>>20)
		}
		small, err := s.Operators().ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{PageSize: 10})
		if err != nil || len(small.GetExecutions()) != 10 || small.GetNextPageToken() == "" {
			t.Errorf("a page of 10: %v, %v", small, err)
		}
	})
}

// listWithin lists the unknown calls as JSON and tells how much memory that took.
func listWithin(t *testing.T, s *harness.Sidecar) (out string, peakBytes int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, harness.ReleaseBinary(t), "resolve", "--addr", s.Operator, "--json")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var listing bytes.Buffer
	for {
		n, err := io.CopyN(&listing, stdout, 64<<10)
		if peak := memoryOf(t, cmd.Process.Pid, peakMemory); n > 0 {
			peakBytes = max(peakBytes, peak)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return listing.String(), peakBytes
}

// What of a process's memory is asked for.
var (
	// ownMemory is what it has now, without the pages of the store's file, which
	// the system keeps in memory for as long as it likes.
	ownMemory = regexp.MustCompile(`(?m)^RssAnon:\s+(\d+) kB$`)
	// peakMemory is the most that it has had so far.
	peakMemory = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)
)

// memoryOf is the memory of a process in bytes; 0 when it has ended.
func memoryOf(t *testing.T, pid int, which *regexp.Regexp) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := which.FindSubmatch(status)
	if found == nil {
		return 0 // a process that nobody has waited for yet has no memory
	}
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
