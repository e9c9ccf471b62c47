//go:build prove

package redisfault

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// place is where in an exchange with an upstream the connection breaks.
type place struct {
	name string
	way  faultproxy.Direction
	// skip is how many chunks of that direction still pass, keep how many bytes
	// of the next one.
	skip int
	keep func(chunk []byte) int
	// long: the answer is one of many packets.
	long bool
}

// executed reports whether the upstream has done the work by then.
func (p place) executed() bool { return p.way == faultproxy.ToClient }

func fixed(n int) func([]byte) int    { return func([]byte) int { return n } }
func part(of, n int) func([]byte) int { return func(chunk []byte) int { return len(chunk) * n / of } }
func butOne(chunk []byte) int         { return len(chunk) - 1 }
func headers(chunk []byte) int        { return bytes.Index(chunk, []byte("\r\n\r\n")) + 4 }
func inHeaders(chunk []byte) int      { return headers(chunk) / 2 }
func inBody(chunk []byte) int         { return (headers(chunk) + len(chunk)) / 2 }

// The ways in which a connection ends.
const (
	closed = iota
	reset
	silent
	ends
)

func sayHow(e int) string { return [...]string{closed: "closed", reset: "reset", silent: "silent"}[e] }
func endOf(e int) func(int) faultproxy.Action {
	return [...]func(int) faultproxy.Action{closed: faultproxy.Close, reset: faultproxy.Reset, silent: faultproxy.Mute}[e]
}

// inPlainSight are the places in an exchange over HTTP/1.1.
var inPlainSight = []place{
	{name: "before the request", way: faultproxy.ToTarget, keep: fixed(0)},
	{name: "in the request", way: faultproxy.ToTarget, keep: part(2, 1)},
	{name: "in the last byte of the request", way: faultproxy.ToTarget, keep: butOne},
	{name: "before the answer", keep: fixed(0), way: faultproxy.ToClient},
	{name: "in the status line", keep: fixed(5), way: faultproxy.ToClient},
	{name: "in the headers", keep: inHeaders, way: faultproxy.ToClient},
	{name: "after the headers", keep: headers, way: faultproxy.ToClient},
	{name: "in the body", keep: inBody, way: faultproxy.ToClient},
	{name: "before the last byte", keep: butOne, way: faultproxy.ToClient},
	{name: "in a long body", skip: 2, keep: part(2, 1), way: faultproxy.ToClient, long: true},
}

// underTLS are the places in an exchange over HTTP/2, of which a proxy sees no
// more than when it begins.
var underTLS = []place{
	{name: "before the answer", keep: fixed(0), way: faultproxy.ToClient},
	{name: "in the head of a record", keep: fixed(3), way: faultproxy.ToClient},
	{name: "in a record", keep: part(2, 1), way: faultproxy.ToClient},
	{name: "before the last byte", keep: butOne, way: faultproxy.ToClient},
	{name: "in a long body", skip: 2, keep: part(2, 1), way: faultproxy.ToClient, long: true},
}

// effects are the tools, and what has to become of a call whose first answer
// is lost.
var effects = []struct {
	name   string
	method string
	// unknown: nobody may send it again. honours: the upstream carries it out
	// once, however often it is sent.
	unknown, honours bool
}{
	{name: "non_idempotent", method: "POST", unknown: true},
	{name: "keyed", method: "POST", honours: true},
	{name: "idempotent", method: "PUT"},
	{name: "read_only", method: "GET"},
}

// breaker breaks connections to the upstream, each in one place once.
type breaker struct {
	mu      sync.Mutex
	planned map[string]*plan // by id
	fired   atomic.Int64
	longest int // chunk of an answer to a call without a plan
}

type plan struct {
	place
	end  func(keep int) faultproxy.Action
	done atomic.Bool
}

func (b *breaker) plan(id string, p place, end func(int) faultproxy.Action) *plan {
	b.mu.Lock()
	defer b.mu.Unlock()
	planned := &plan{place: p, end: end}
	b.planned[id] = planned
	return planned
}

// take returns the plan for an id, once.
func (b *breaker) take(id string) *plan {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.planned[id]
	delete(b.planned, id)
	return p
}

var idIn = regexp.MustCompile(`call-\d{6}`)

// read finds the call in what is sent in the clear.
func (b *breaker) read(*faultproxy.Conn) faultproxy.Hook {
	var now *plan
	skipped := 0
	return func(way faultproxy.Direction, chunk []byte) faultproxy.Action {
		if way == faultproxy.ToTarget {
			if id := idIn.Find(chunk); id != nil {
				now, skipped = b.take(string(id)), 0
			}
		} else if now == nil {
			b.measure(chunk)
		}
		if now == nil || way != now.way {
			return faultproxy.Pass
		}
		return b.strike(now, &skipped, chunk)
	}
}

func (b *breaker) measure(chunk []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.longest = max(b.longest, len(chunk))
}

// length is that of a whole answer which came in one chunk.
func (b *breaker) length() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.longest
}

// strike breaks the connection when the plan says here.
func (b *breaker) strike(p *plan, skipped *int, chunk []byte) faultproxy.Action {
	if *skipped < p.skip {
		*skipped++
		return faultproxy.Pass
	}
	if p.done.Swap(true) {
		return faultproxy.Pass
	}
	b.fired.Add(1)
	return p.end(p.keep(chunk))
}

// blind knows by the ledger when a call has been carried out, and takes what
// then comes for its answer. There is one call at a time.
func (b *breaker) blind(ledger *upstream.Ledger, current *atomic.Value) func(*faultproxy.Conn) faultproxy.Hook {
	return func(*faultproxy.Conn) faultproxy.Hook {
		var now *plan
		skipped := 0
		return func(way faultproxy.Direction, chunk []byte) faultproxy.Action {
			id, _ := current.Load().(string)
			if way == faultproxy.ToTarget || id == "" || ledger.Executions(id) == 0 {
				return faultproxy.Pass
			}
			if p := b.take(id); p != nil {
				now, skipped = p, 0
			}
			if now == nil {
				return faultproxy.Pass
			}
			return b.strike(now, &skipped, chunk)
		}
	}
}

// spoken counts the requests by the major version of their HTTP.
type spoken struct {
	*upstream.Upstream

	one, two, other atomic.Int64
}

func (s *spoken) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.ProtoMajor {
	case 1:
		s.one.Add(1)
	case 2:
		s.two.Add(1)
	default:
		s.other.Add(1)
	}
	s.Upstream.ServeHTTP(w, r)
}

// startSpoken starts an upstream that speaks HTTP/1.1 in the clear, or HTTP/2.
func startSpoken(t *testing.T, two bool) (*spoken, *httptest.Server) {
	t.Helper()
	up := &spoken{Upstream: upstream.New(openLedger(t))}
	server := httptest.NewUnstartedServer(up)
	if server.EnableHTTP2 = two; two {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(func() {
		up.Close()
		server.Close()
		if err := up.Ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	return up, server
}

// upstreamLink is a sidecar whose upstream is behind a proxy.
type upstreamLink struct {
	t       *testing.T
	breaker *breaker
	proxy   *faultproxy.Proxy
	up      *spoken
	sidecar *harness.Sidecar

	calls, executions, recovered, unknown, violated atomic.Int64
}

// newUpstreamLink starts a sidecar before an upstream at addr, which it knows
// by the proxy's address. Each effect has backends of its own in each round:
// the retry budget of one would not do for so many failures. Nothing is shed,
// however bad the upstream.
func newUpstreamLink(t *testing.T, up *spoken, server *httptest.Server, rounds int, tls string) *upstreamLink {
	t.Helper()
	scheme, addr, _ := strings.Cut(server.URL, "://")
	l := &upstreamLink{t: t, breaker: &breaker{planned: map[string]*plan{}}, proxy: faultproxy.Start(t, addr), up: up}
	var backends, tools strings.Builder
	for round := range rounds {
		for _, e := range effects {
			for _, kind := range []struct{ long, silent bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
				name := toolName(e.name, round, kind.long, kind.silent)
				fmt.Fprintf(&backends, "  %s: {http: {base_url: %q, allow_private: true%s}, adaptive: false, breaker: {failures: 1000000}}\n", name, scheme+"://"+l.proxy.Addr(), tls)
				key := ""
				if e.honours {
					key = ", idempotency_header: Idempotency-Key"
					up.HonourKeys("/" + name)
				}
				if kind.long {
					up.Script("/"+name, upstream.HugeJSON(8_000))
				}
				fmt.Fprintf(&tools, "  %s: {backend: %s, effect: %s, attempt_timeout: %v, http: {method: %s, path: /%s%s}}\n",
					name, name, e.name, attemptTimeout(kind.silent), e.method, name, key)
			}
		}
	}
	config := fmt.Sprintf("defaults: {deadline: 60s, retry: {base: 5ms, max: 20ms}}\nbackends:\n%stools:\n%s", &backends, &tools)
	l.sidecar = harness.Start(t, config)
	return l
}

// attemptTimeout is what a call waits for that meets silence. No other call
// should ever wait in vain, on a machine however busy.
func attemptTimeout(meetsSilence bool) time.Duration {
	if meetsSilence {
		return 2 * time.Second
	}
	return 15 * time.Second
}

func toolName(effect string, round int, long, silent bool) string {
	return fmt.Sprintf("%s-%d-long_%t-silent_%t", effect, round, long, silent)
}

// callNumber counts the calls of the test process, so that no id comes twice.
var callNumber atomic.Int64

func newID() string { return fmt.Sprintf("call-%06d", callNumber.Add(1)) }

// try breaks the first attempt of a call, and checks what becomes of it.
func (l *upstreamLink) try(id string, round, effect int, p place, end int) {
	e := effects[effect]
	what := fmt.Sprintf("%s, %s %s", e.name, sayHow(end), p.name)
	planned := l.breaker.plan(id, p, endOf(end))
	request := &sidecallv1.ExecuteToolRequest{ToolUseId: id, ToolName: toolName(e.name, round, p.long, end == silent), ArgumentsJson: fmt.Sprintf(`{"key":%q}`, id)}
	first := l.call(what, request)
	if !planned.done.Load() {
		l.t.Errorf("%s: the fault never came about", what)
	}
	l.calls.Add(1)
	n, attempts := l.up.Ledger.Executions(id), l.attempts(id)
	l.executions.Add(int64(n))
	late := 0 // attempts that were given up, beyond the one that met the fault
	if !e.unknown {
		late = attempts - 2
	}
	if want := executions(e.unknown, e.honours, p.executed()); n < want || n > want+max(late, 0) || e.honours && n != want {
		l.violation("%s: %d executions in %d attempts, want %d", what, n, attempts, want)
	}
	waits := time.Duration(late) * attemptTimeout(end == silent)
	if end == silent {
		waits += attemptTimeout(true)
	}
	if late < 0 || e.unknown && attempts != 1 || first.GetDuration().AsDuration() < waits {
		l.violation("%s: %d attempts in %v", what, attempts, first.GetDuration().AsDuration())
	}
	if code := first.GetError().GetCode(); e.unknown != (code == "OUTCOME_UNKNOWN") || !e.unknown && first.GetIsError() {
		l.violation("%s: %q: %s", what, code, first.GetContent())
	}
	again := l.call(what, request)
	if !again.GetReplayed() || again.GetContent() != first.GetContent() || l.up.Ledger.Executions(id) != n {
		l.violation("%s: asked again, %d executions: %s", what, l.up.Ledger.Executions(id), again.GetContent())
	}
	if e.unknown {
		l.unknown.Add(1)
	} else {
		l.recovered.Add(1)
	}
}

// executions is how often a call runs whose first attempt meets the fault, and
// whose second one, if there may be one, is answered.
func executions(unknown, honours, executed bool) int {
	switch {
	case unknown && !executed:
		return 0
	case !unknown && !honours && executed:
		return 2
	default:
		return 1
	}
}

// attempts is how many the record has of a call.
func (l *upstreamLink) attempts(id string) int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	record, err := l.sidecar.Client.GetExecution(ctx, &sidecallv1.GetExecutionRequest{ToolUseId: id})
	if err != nil {
		l.violation("the record of %s: %v", id, err)
	}
	return int(record.GetAttempts())
}

// speaks checks that all requests came over one version of HTTP.
func (l *upstreamLink) speaks(this, that *atomic.Int64) {
	if this.Load() == 0 || that.Load() > 0 || l.up.other.Load() > 0 {
		l.violation("%d requests over HTTP/1, %d over HTTP/2, %d over others", l.up.one.Load(), l.up.two.Load(), l.up.other.Load())
	}
}

// call makes a call that has to be answered.
func (l *upstreamLink) call(what string, request *sidecallv1.ExecuteToolRequest) *sidecallv1.ExecuteToolResponse {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	res, err := l.sidecar.Client.ExecuteTool(ctx, request)
	if err != nil {
		l.violation("%s: %v", what, err)
	}
	return res
}

func (l *upstreamLink) violation(format string, args ...any) {
	if l.violated.Add(1) < 10 {
		l.t.Errorf(format, args...)
	}
}

// String is what there was to measure.
func (l *upstreamLink) String() string {
	return fmt.Sprintf("%d connections broken; %d non_idempotent calls unknown, %d others recovered by retry, %d executions on disk",
		l.breaker.fired.Load(), l.unknown.Load(), l.recovered.Load(), l.executions.Load())
}

func openLedger(t *testing.T) *upstream.Ledger {
	t.Helper()
	ledger, err := upstream.OpenLedger(filepath.Join(t.TempDir(), "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	return ledger
}

// The connection to the upstream breaks, on the way there or back, in every
// place, at every byte of the answer, in every way, for tools of every effect.
func TestUpstreamAnswersAreLost(t *testing.T) {
	up, server := startSpoken(t, false)
	rounds := proof.Runs(1, 10)
	l := newUpstreamLink(t, up, server, rounds, "")
	l.proxy.Hook(l.breaker.read)
	if res := l.call("without a fault", &sidecallv1.ExecuteToolRequest{
		ToolUseId: "whole", ToolName: toolName("non_idempotent", 0, false, false), ArgumentsJson: fmt.Sprintf(`{"key":%q}`, newID()),
	}); res.GetIsError() {
		t.Fatal(res.GetContent())
	}
	length := l.breaker.length()
	limit := make(chan struct{}, 16)
	var calls sync.WaitGroup
	try := func(round, effect int, p place, end int) {
		limit <- struct{}{}
		calls.Go(func() {
			defer func() { <-limit }()
			l.try(newID(), round, effect, p, end)
		})
	}
	for round := range rounds {
		for effect := range effects {
			for _, p := range inPlainSight {
				for end := range ends {
					try(round, effect, p, end)
				}
			}
		}
	}
	bytes := 0
	for at := 0; at < length; at += proof.Runs(5, 1) {
		bytes++
		for end := range silent {
			try(0, 0, place{name: fmt.Sprint("at byte ", at), keep: fixed(at), way: faultproxy.ToClient}, end)
		}
	}
	calls.Wait()
	l.speaks(&up.one, &up.two)
	if bytes < 20 {
		t.Errorf("only %d places in an answer of %d bytes", bytes, length)
	}
	proof.Report(t, proof.Row{
		Fault: "upstream connection broken in every place, http/1.1", Store: "embedded",
		Runs: int(l.calls.Load()), Violations: int(l.violated.Load()),
		Figure: fmt.Sprintf("%d places, %d bytes of the answer; %s", len(inPlainSight), bytes, l),
	})
}

// The same over HTTP/2, one call at a time.
func TestUpstreamAnswersAreLostOverHTTP2(t *testing.T) {
	up, server := startSpoken(t, true)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	rounds := proof.Runs(1, 10)
	l := newUpstreamLink(t, up, server, rounds, fmt.Sprintf(", tls: {ca: %q}", ca))
	var current atomic.Value
	l.proxy.Hook(l.breaker.blind(up.Ledger, &current))
	try := func(round, effect int, p place, end int) {
		id := newID()
		current.Store(id)
		l.try(id, round, effect, p, end)
	}
	for round := range rounds {
		for effect := range effects {
			for _, p := range underTLS {
				for end := range silent {
					try(round, effect, p, end)
				}
			}
		}
		// A silent connection is used by every call until a ping has gone
		// unanswered, so only the call that must not be sent again is tried. One that
		// is cut is used until that is noticed.
		for _, p := range underTLS {
			try(round, 0, p, silent)
			l.proxy.Cut()
			current.Store("")
			harness.WaitFor(t, "another connection", func() bool {
				return !l.call("after a cut", &sidecallv1.ExecuteToolRequest{
					ToolUseId: newID(), ToolName: toolName(effects[0].name, round, p.long, true), ArgumentsJson: `{"key":"after a cut"}`,
				}).GetIsError()
			})
		}
	}
	l.speaks(&up.two, &up.one)
	proof.Report(t, proof.Row{
		Fault: "upstream connection broken in every place, http/2", Store: "embedded",
		Runs: int(l.calls.Load()), Violations: int(l.violated.Load()),
		Figure: fmt.Sprintf("%d places; %s", len(underTLS), l),
	})
}
