//go:build prove

package overload

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

const (
	soakCallers = 32
	soakPlaces  = 24 // fewer than callers, so that some are refused
	bigOutput   = 64 << 10
	batchCalls  = 4
	// perRecord bounds what a call may leave in the store until its retention is
	// over, in bytes, on average. A kept output is many times that, every tenth
	// call has one, and it is gone after a second.
	perRecord = 4 << 10
)

const soakConfig = `
lease: 10s
retention: 1m
limits: {output_ttl: 1s}
defaults: {retry: {base: 5ms}, attempt_timeout: 10s, deadline: 20s, max_output_chars: 1000}
backends: {up: {http: {base_url: %q, allow_private: true, idle_timeout: 1s}, max_in_flight: %d, breaker: {failures: 1000000}}}
tools:
  pay: {backend: up, http: {method: POST, path: /pay, query: {id: id}}, input_schema: &id {type: object, properties: {id: {type: string}}, required: [id]}}
  get: {backend: up, effect: read_only, http: {method: POST, path: /get, query: {id: id}}, input_schema: *id}
  fail: {backend: up, http: {method: POST, path: /fail, query: {id: id}}, input_schema: *id}
  flaky: {backend: up, effect: read_only, http: {method: POST, path: /flaky, query: {id: id}}, input_schema: *id}
  slow: {backend: up, http: {method: POST, path: /slow, query: {id: id}}, input_schema: *id}
  big: {backend: up, effect: read_only, http: {method: POST, path: /big, query: {id: id}}, input_schema: *id}
`

// soak is a mix of everything that a sidecar is asked to do, for a long time.
type soak struct {
	world *world
	name  string
	plant *plant
	kinds [10]kind
	first atomic.Pointer[string] // the first thing that was wrong

	mu     sync.Mutex
	unsent []string // ids of calls of which nothing was sent, by their answer
}

// kind is what came of the calls of one kind.
type kind struct {
	done, wrong atomic.Int64
	// worked are those of done that were not refused and ended as the kind is
	// meant to.
	worked atomic.Int64
}

const (
	// once begins the ids of calls that must not be repeated.
	once = "once-"
	// leastWorked is the share of all calls that have to have worked: much less than there
	// is room for, so that a slow machine does, and a sidecar that refuses so fast that its
	// callers come back ten times as often.
	leastWorked = 0.1
	// leastOfKind is how much of what works has to be of each kind, in parts of what is on
	// average: a kind whose calls find no place is starved, however many are refused.
	leastOfKind = 0.5
)

// onceOnly are the kinds whose tools are not to be repeated.
var onceOnly = []int{0, 1, 3, 6, 7, 8, 9}

// behave is what the upstream does by path.
func (s *soak) behave(w http.ResponseWriter, req *http.Request) bool {
	id := req.URL.Query().Get("id")
	switch req.URL.Path {
	case "/fail":
		s.plant.execute(id)
		w.WriteHeader(http.StatusUnprocessableEntity)
	case "/flaky":
		if s.plant.requests.Load()%2 == 0 {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	case "/slow":
		s.plant.execute(id)
		select {
		case <-time.After(50 * time.Millisecond):
		case <-req.Context().Done():
		}
	case "/big":
		_, _ = w.Write([]byte(strings.Repeat("all work and no play makes jack a dull boy\n", bigOutput/43))) // whoever has left does not read it
	default:
		return false
	}
	return true
}

// call makes the nth call of the mix.
func (s *soak) call(ctx context.Context, n int) Answer {
	kind := n % len(s.kinds)
	id := fmt.Sprint(s.name, n)
	if slices.Contains(onceOnly, kind) {
		id = once + id
	}
	one := func(toolName string) Answer { return answerOf(s.world.call(ctx, n, toolName, id)) }
	switch kind {
	case 0, 1:
		return s.judge(kind, one("pay"), OK)
	case 2:
		return s.judge(kind, one("get"), OK)
	case 3:
		return s.judge(kind, one("fail"), "BUSINESS_RULE")
	case 4:
		return s.judge(kind, one("flaky"), OK, "DEPENDENCY_UNAVAILABLE")
	case 5:
		return s.judge(kind, one("big"), OK)
	case 6:
		return s.duplicates(ctx, n, kind, id)
	case 7:
		return s.cancelled(ctx, n, kind, id)
	case 8:
		return s.batch(ctx, n, kind, id)
	default:
		return s.replay(ctx, n, kind, id)
	}
}

// judge notes whether an answer is the one that is wanted, another that may be,
// or a refusal for want of room.
func (s *soak) judge(kind int, a Answer, wanted string, others ...string) Answer {
	s.kinds[kind].done.Add(1)
	switch {
	case a.Code == wanted:
		s.kinds[kind].worked.Add(1)
	case a.Code != "OVERLOADED" && !slices.Contains(others, a.Code):
		s.wrong(kind, "kind %d: %s, want %s or one of %s", kind, a.Code, wanted, others)
	}
	return a
}

func (s *soak) wrong(kind int, format string, args ...any) {
	s.kinds[kind].wrong.Add(1)
	text := fmt.Sprintf(format, args...)
	s.first.CompareAndSwap(nil, &text)
}

// duplicates sends the same slow call twice at the same time.
func (s *soak) duplicates(ctx context.Context, n, kind int, id string) Answer {
	second := make(chan Answer, 1)
	go func() { second <- answerOf(s.world.call(ctx, n+1, "slow", id)) }()
	first := answerOf(s.world.call(ctx, n, "slow", id))
	s.judge(kind, <-second, OK)
	return s.judge(kind, first, OK)
}

// cancelled leaves a call in the middle.
func (s *soak) cancelled(ctx context.Context, n, kind int, id string) Answer {
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	answer := answerOf(s.world.call(short, n, "slow", id))
	// The sidecar keeps a little of the time for its answer, so some are heard.
	const left = "left"
	if slices.Contains([]string{unheard, "OUTCOME_UNKNOWN", "IN_PROGRESS"}, answer.Code) {
		answer.Code = left
	}
	// On a busy machine not even a connection is made in that time.
	const unconnected = "DEPENDENCY_UNAVAILABLE"
	if answer.Code == unconnected || slices.Contains(refusing, answer.Code) {
		s.mu.Lock()
		s.unsent = append(s.unsent, id)
		s.mu.Unlock()
	}
	return s.judge(kind, answer, left, "TIMEOUT", "CANCELLED", unconnected)
}

func (s *soak) batch(ctx context.Context, n, kind int, id string) Answer {
	req := &sidecallv1.ExecuteToolsRequest{}
	for i := range batchCalls {
		each := fmt.Sprint(id, "-", i)
		req.Calls = append(req.Calls, &sidecallv1.ExecuteToolRequest{
			ToolUseId: each, ToolName: "pay", ConversationId: id, ArgumentsJson: fmt.Sprintf(`{"id":%q}`, each),
		})
	}
	res, err := s.world.clients[n%len(s.world.clients)].ExecuteTools(ctx, req)
	if err != nil || len(res.GetResults()) != batchCalls {
		return s.judge(kind, answerOf(nil, err), "as many results as calls") // which is never the code
	}
	for _, each := range res.GetResults() {
		s.judge(kind, answerOf(each, nil), OK)
	}
	return Answer{Code: "batch"}
}

// replay sends a call again that was just done.
func (s *soak) replay(ctx context.Context, n, kind int, id string) Answer {
	first, err := s.world.call(ctx, n, "pay", id)
	if answer := answerOf(first, err); answer.Code != OK {
		s.judge(kind, answer, OK)
		return answer
	}
	again, err := s.world.call(ctx, n+1, "pay", id)
	if err == nil && !again.GetIsError() && (!again.GetReplayed() || again.GetContent() != first.GetContent()) {
		s.wrong(kind, "a payment that was made before was answered with %v", again)
	}
	return s.judge(kind, answerOf(again, err), OK)
}

// begin begins the measured part: what worked before does not count.
func (s *soak) begin(name string) {
	s.name = name
	for kind := range s.kinds {
		s.kinds[kind].done.Store(0)
		s.kinds[kind].worked.Store(0)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsent = nil
}

// worked is how many calls were not refused and ended as they were meant to, and
// how many there were.
func (s *soak) worked() (worked, all int64) {
	for kind := range s.kinds {
		worked += s.kinds[kind].worked.Load()
		all += s.kinds[kind].done.Load()
	}
	return worked, all
}

// check tells what was wrong, and what was not done or refused too often.
func (s *soak) check(t *testing.T, violations *int) {
	t.Helper()
	if text := s.first.Load(); text != nil {
		t.Errorf("%s", *text)
	}
	all, sent := s.worked()
	if float64(all) < leastWorked*float64(sent) {
		broken(t, violations, "%d of %d calls worked", all, sent)
	}
	for kind := range s.kinds {
		*violations += int(s.kinds[kind].wrong.Load())
		done, worked := s.kinds[kind].done.Load(), s.kinds[kind].worked.Load()
		if least := leastOfKind * float64(all) / float64(len(s.kinds)); worked == 0 || float64(worked) < least {
			broken(t, violations, "kind %d: %d of %d calls worked, want %.0f", kind, worked, done, least)
		}
		t.Logf("kind %d: %d of %d calls worked", kind, worked, done)
	}
	_, twice := s.plant.executions(starts(once + s.name))
	if twice > 0 {
		broken(t, violations, "%d calls were executed twice", twice)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent := s.plant.did(s.unsent); len(sent) > 0 {
		broken(t, violations, "%d of %d calls were executed although nothing was sent by their answer, as %s", len(sent), len(s.unsent), sent[0])
	}
	t.Logf("%d calls left early of which nothing was sent", len(s.unsent))
}

func TestSoak(t *testing.T) {
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			if !proof.Full() {
				t.Parallel()
			}
			proveSoak(t, store)
		})
	}
}

func proveSoak(t *testing.T, store string) {
	t.Helper()
	up := startPlant(t, 1000, time.Millisecond)
	s := &soak{plant: up}
	up.answers(s.behave)
	w := soakWorld(t, store, fmt.Sprintf(soakConfig, up.URL, soakPlaces))
	s.world = w
	length := proof.Pick(12*time.Second, 10*time.Minute)
	// In full the store has as many records before as after: the embedded one
	// keeps them for the retention and a minute more, and an index in memory.
	warm := proof.Pick(length/10, 150*time.Second)
	load := Load{Call: s.call, Deadline: 30 * time.Second, Callers: soakCallers, For: warm}
	s.name = w.load("warm")
	load.Closed(t.Context())
	before := w.idle(t, Vitals{}, 30*time.Second)
	up.forget()

	s.begin(w.load("soak"))
	load.For = length
	watched := w.watch(t, max(length/60, length/looks/2, time.Second))
	tally := load.Closed(t.Context())
	trend := watched.stop()
	violations := 0
	after := w.mustCalmDown(t, &violations, before, 30*time.Second)
	t.Logf("%s\n%s\nidle before: %s\nidle after:  %s", tally, trend, before, after)
	s.check(t, &violations)
	if proof.Full() {
		mustBeFlat(t, &violations, trend)
	} else { // nothing expires yet but kept outputs
		calls := int64(tally.Total() + (batchCalls-1)*tally.Count("batch"))
		if grown := after.Stored - before.Stored; grown > calls*perRecord+flatStored {
			broken(t, &violations, "the store grew by %d bytes in %d calls", grown, calls)
		}
		mustBeFlat(t, &violations, trend.without(func(v *Vitals) { v.Stored = 0 }))
	}
	if tally.Count("OVERLOADED") == 0 {
		broken(t, &violations, "it was never full")
	}
	worked, all := s.worked()
	proof.Report(t, proof.Row{
		Fault: "soak at full load", Store: store, Runs: tally.Total(), Violations: violations,
		Figure: fmt.Sprintf("%s of everything worked and %s did not, mostly refused, for %s; %s; idle before: %s; after: %s",
			perSecond(float64(worked)/length.Seconds()), perSecond(float64(all-worked)/length.Seconds()), seconds(length), trend, before, after),
	})
}

// soakWorld starts a sidecar whose store is measured.
func soakWorld(t *testing.T, store, config string) *world {
	t.Helper()
	if store == "embedded" {
		w := startWorld(t, "", config)
		w.stored = func() int64 {
			info, err := os.Stat(filepath.Join(w.Dir, "sidecall.db"))
			if err != nil {
				t.Error(err)
				return 0
			}
			return info.Size()
		}
		return w
	}
	addr := harness.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	w := startWorld(t, "", fmt.Sprintf("store: {redis: {addrs: [%q]}}\n%s", addr, config))
	w.stored = func() int64 {
		sweep(t, client)
		info, err := client.InfoMap(t.Context(), "memory").Result()
		if err != nil {
			t.Error(err)
			return 0
		}
		used, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
		if err != nil {
			t.Error(err)
		}
		return used
	}
	return w
}

// sweep makes Redis free what has expired: by itself it leaves expired keys alone
// while they are less than a tenth of all, however large they are.
func sweep(t *testing.T, client *redis.Client) {
	t.Helper()
	for cursor := uint64(0); ; {
		_, next, err := client.Scan(t.Context(), cursor, "*", 1000).Result()
		if err != nil {
			t.Error(err)
			return
		}
		if cursor = next; cursor == 0 {
			return
		}
	}
}
