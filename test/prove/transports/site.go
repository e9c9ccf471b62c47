//go:build prove

package transports

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// patience bounds a call on a machine that is busy.
const patience = time.Minute

// The tools, one of each effect. All carry their key in the path, and an
// idempotency key in a header.
const (
	act    = "act"    // POST, non_idempotent
	pay    = "pay"    // POST, keyed; the upstream honours the key
	put    = "put"    // PUT, idempotent
	look   = "look"   // GET, read_only
	actGet = "actget" // GET that has an effect after all, non_idempotent
	drop   = "drop"   // DELETE, declared non_idempotent

	// Two that the operator has declared wrongly.
	believes = "believes" // POST, non_idempotent; a 503 is said to prove that nothing was done
	ignored  = "ignored"  // POST, keyed; the upstream ignores the key
)

var tools = []string{act, pay, put, look, actGet, drop}

// once are the tools whose effect must not happen twice, whatever is sent.
var once = map[string]bool{act: true, pay: true, actGet: true, drop: true}

// repeatable are those that Sidecall may send again after an ambiguous failure.
var repeatable = map[string]bool{pay: true, put: true, look: true}

// site is what an upstream knows: what it was asked and what it did.
type site struct {
	ledger *upstream.Ledger

	mu     sync.Mutex
	asked  map[string]int
	done   map[string]bool   // idempotency keys
	keys   map[string]string // idempotency key by call
	reused int               // faults on a connection, or in a session, that had been used before
	faults int
}

func newSite() *site {
	return &site{ledger: upstream.NewLedger(), asked: map[string]int{}, done: map[string]bool{}, keys: map[string]string{}}
}

// arrives counts a request of a call, and reports whether it is the first.
func (s *site) arrives(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[key]++
	return s.asked[key] == 1
}

// breaks counts a fault on the nth request of a connection, or of a session.
func (s *site) breaks(nth int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults++
	if nth > 1 {
		s.reused++
	}
}

func (s *site) requests(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[key]
}

// executes carries a request out, once per idempotency key where that is
// honoured.
func (s *site) executes(t *testing.T, key, idempotencyKey string, honoured bool) {
	s.mu.Lock()
	before, known := s.keys[key]
	s.keys[key] = idempotencyKey
	skip := honoured && s.done[idempotencyKey]
	s.done[idempotencyKey] = true
	s.mu.Unlock()
	if known && before != idempotencyKey {
		t.Errorf("%s came under two idempotency keys", key)
	}
	if skip {
		return
	}
	if err := s.ledger.Write(key); err != nil {
		t.Error(err)
	}
}

// config is a sidecar in front of an HTTP upstream. extra are further lines of
// the backend.
func config(url, extra string) string {
	return fmt.Sprintf(`
store: {embedded: {path: ./sidecall.db}}
defaults: {attempt_timeout: 20s, retry: {max_attempts: 3, base: 1ms, max: 5ms}}
backends:
  shop:
    http: {base_url: %q, allow_private: true, connect_timeout: 30s%s}
    breaker: {failures: 1000000}
tools:
  warm: {backend: shop, effect: read_only, http: {method: GET, path: /warm}}
`, url, extra) + toolConfig()
}

// doubts is the effect of what must not be repeated, at an upstream whose 429 proves
// nothing.
const doubts = "non_idempotent\n    rejects_before_work: []"

func toolConfig() string {
	var text strings.Builder
	for name, how := range map[string][2]string{
		act: {"POST", doubts}, pay: {"POST", "keyed"}, put: {"PUT", "idempotent"},
		look: {"GET", "read_only"}, actGet: {"GET", doubts}, drop: {"DELETE", doubts},
		believes: {"POST", "non_idempotent\n    rejects_before_work: [429, 503]"}, ignored: {"POST", "keyed"},
	} {
		fmt.Fprintf(&text, `  %s:
    backend: shop
    effect: %s
    http: {method: %s, path: "/do/%s/{fault}/{key}", idempotency_header: Idempotency-Key}
    input_schema: {type: object, properties: {fault: {type: string}, key: {type: string}, pad: {type: string}}, required: [fault, key]}
`, name, how[1], how[0], name)
	}
	return text.String()
}

// audit is a sidecar with calls whose outcomes are compared with what the
// upstream knows.
type audit struct {
	*harness.Sidecar
	t          *testing.T
	site       *site
	calls      int
	violations int
}

// trial is one call of one tool that meets one fault.
type trial struct {
	tool, fault, key string
	args             map[string]string
}

func newTrial(tool, fault string, round int) trial {
	key := fmt.Sprintf("%s-%s-%d", tool, fault, round)
	return trial{tool, fault, key, map[string]string{"fault": fault, "key": key}}
}

func (a *audit) broken(format string, args ...any) {
	a.t.Helper()
	a.violations++
	a.t.Errorf(format, args...)
}

func (a *audit) request(c trial) *sidecallv1.ExecuteToolRequest {
	text, err := json.Marshal(c.args)
	if err != nil {
		a.t.Fatal(err)
	}
	return &sidecallv1.ExecuteToolRequest{ConversationId: "audit", TurnId: "1", ToolUseId: c.key, ToolName: c.tool, ArgumentsJson: string(text)}
}

// warm leaves one connection idle, so that the next call reuses it.
func (a *audit) warm() {
	a.t.Helper()
	a.calls++
	res := a.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: fmt.Sprintf("warm-%d", a.calls), ToolName: "warm"})
	if res.GetIsError() {
		a.t.Fatalf("the warm-up fails: %s", res.GetContent())
	}
}

// makes sends a call, and the same once more, and holds both to what is promised
// of every transport: no request that Sidecall did not count as an attempt; no
// second one for a tool that may not be repeated; and the duplicate is answered
// from the record.
func (a *audit) makes(c trial) *sidecallv1.ExecuteToolResponse {
	a.t.Helper()
	a.calls++
	res := a.Call(a.request(c))
	asked, ran := a.site.requests(c.key), a.site.ledger.Executions(c.key)
	attempts := a.attempts(c)
	switch {
	case asked > attempts:
		a.broken("%s: %d requests, %d attempts were counted: %s", c.key, asked, attempts, res.GetContent())
	case once[c.tool] && ran > 1:
		a.broken("%s: it happened %d times", c.key, ran)
	case !res.GetIsError() && ran == 0:
		a.broken("%s: it is said to have happened: %s", c.key, res.GetContent())
	}
	if repeatable[c.tool] && res.GetIsError() || repeats(res.GetError().GetCode()) {
		return res // it may run again under the same id, without harm
	}
	again := a.Call(a.request(c))
	if !again.GetReplayed() || again.GetContent() != res.GetContent() || a.site.requests(c.key) != asked {
		a.broken("%s: sent again it is %q, replayed %v, %d requests; first %q, %d", c.key, again.GetContent(), again.GetReplayed(),
			a.site.requests(c.key), res.GetContent(), asked)
	}
	return res
}

// repeats reports whether a failure leaves the id free to run.
func repeats(code string) bool {
	switch code {
	case "DEPENDENCY_UNAVAILABLE", "TIMEOUT", "RATE_LIMITED", "CIRCUIT_OPEN", "OVERLOADED":
		return true
	default:
		return false
	}
}

// attempts is what the record says.
func (a *audit) attempts(c trial) int {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	record, err := a.Client.GetExecution(ctx, &sidecallv1.GetExecutionRequest{ConversationId: "audit", TurnId: "1", ToolUseId: c.key})
	if err != nil {
		a.t.Fatal(err)
	}
	return int(record.GetAttempts())
}

// unknown is what a tool that may not be repeated says when nobody knows.
func (a *audit) unknown(c trial, res *sidecallv1.ExecuteToolResponse, ran int) {
	a.t.Helper()
	if code := res.GetError().GetCode(); code != "OUTCOME_UNKNOWN" {
		a.broken("%s is %s, want OUTCOME_UNKNOWN: %s", c.key, code, res.GetContent())
	}
	if asked, got := a.site.requests(c.key), a.site.ledger.Executions(c.key); asked != 1 || got != ran {
		a.broken("%s: %d requests, %d executions, want 1 and %d", c.key, asked, got, ran)
	}
}
