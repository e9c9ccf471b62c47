//go:build prove

package histories

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/test/prove/proof"
)

// Environment variables: the seed of the plans, where pictures of violations
// go, how many histories are recorded instead of the usual number, and how long
// the search for an order may take instead of the usual time.
const (
	seedEnv  = "SIDECALL_PROVE_SEED"
	dirEnv   = "SIDECALL_PROVE_PICTURES"
	countEnv = "SIDECALL_PROVE_HISTORIES"
	limitEnv = "SIDECALL_PROVE_SEARCH"
)

// enough is how many violations are told; further histories are not recorded.
const enough = 3

// mostUnanswered is the share of operations that may be left without an answer,
// of which less than 2 % is seen on a busy machine. mostInterrupted is that of
// a store which is killed in the middle of every history: 8 to 18 % is seen, and
// nearly 30 % would be if clients never got beyond their first operation before it.
const (
	mostUnanswered  = 0.2
	mostInterrupted = 0.4
)

// monotonic is CLOCK_MONOTONIC in nanoseconds.
func monotonic() int64 { return clock(unix.CLOCK_MONOTONIC) }

func clock(id int32) int64 {
	var at unix.Timespec
	if err := unix.ClockGettime(id, &at); err != nil {
		panic(err) // no such clock: no such host
	}
	return at.Nano()
}

// offset is what the wall clock is ahead of CLOCK_MONOTONIC: the best of many
// looks at both.
func offset() time.Duration {
	best, ahead := int64(1<<62), int64(0)
	for range 1000 {
		before := monotonic()
		wall := clock(unix.CLOCK_REALTIME)
		after := monotonic()
		if after-before < best {
			best, ahead = after-before, wall-(before+after)/2
		}
	}
	return time.Duration(ahead)
}

// histories of one store, being recorded and checked.
type running struct {
	*testing.T
	store    string
	seed     uint64
	want     int
	offset   time.Duration
	behind   time.Duration // see History
	recorder *Recorder
	pictures string
	begun    time.Time

	last       atomic.Int64
	operations atomic.Int64
	violations atomic.Int64
	mu         sync.Mutex
	coverage   Coverage
	need       []string
	unanswered float64 // the share that may be
	figures    []string
	// limit bounds the search of one history, longest is how long one took.
	limit, longest time.Duration
}

func newProof(t *testing.T, store string, want int) *running {
	t.Helper()
	r := &running{
		T: t, store: store, seed: rand.Uint64(), want: wanted(t, want), offset: offset(), recorder: NewRecorder(), begun: time.Now(),
		coverage: Coverage{}, need: slices.Clone(Needed), pictures: os.Getenv(dirEnv),
		unanswered: mostUnanswered,
	}
	if text := os.Getenv(seedEnv); text != "" {
		var err error
		if r.seed, err = strconv.ParseUint(text, 0, 64); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv(limitEnv); text != "" {
		var err error
		if r.limit, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if r.pictures == "" { // they outlive the test
		r.pictures = os.TempDir() //nolint:usetesting // as above
	}
	t.Logf("%s=%#x", seedEnv, r.seed)
	return r
}

// wanted is how many histories to record: the usual number, unless the
// environment says otherwise.
func wanted(t *testing.T, usual int) int {
	t.Helper()
	text := os.Getenv(countEnv)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// next gives out the number of the next history to record, until there are
// enough of them, or enough violations.
func (r *running) next() (history int, more bool) {
	n := r.last.Add(1) - 1
	return int(n), int(n) < r.want && r.violations.Load() < enough
}

// check checks a history that is over. ends are when its phases ended, reopens
// what lies between them.
func (r *running) check(history int, ends map[int]int64, reopens []Operation) {
	if r.violations.Load() >= enough {
		return // the proof has failed; further pictures help nobody
	}
	plan := NewPlan(r.seed, history)
	ops := append(r.recorder.Take(history, ends), reopens...)
	name := fmt.Sprintf("history %s seed %#x number %d", r.store, r.seed, history)
	began := time.Now()
	err := Check(History{Name: name, Keys: plan.Keys, Operations: ops, Offset: r.offset, Behind: r.behind, Limit: r.limit}, r.pictures)
	took := time.Since(began)
	if err != nil && r.violations.Add(1) <= enough {
		r.Error(err)
	}
	r.operations.Add(int64(len(ops)))
	seen := Coverage{}
	for i := range ops {
		seen.Note(&ops[i], plan)
	}
	seen.NoteLate(ops)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.longest = max(r.longest, took)
	for what, n := range seen {
		r.coverage[what] += n
	}
}

// figure adds to what the row tells.
func (r *running) figure(format string, args ...any) {
	r.figures = append(r.figures, fmt.Sprintf(format, args...))
}

// report adds the row, after a look at what the histories have shown.
func (r *running) report() {
	r.Helper()
	if moved := (offset() - r.offset).Abs(); moved > time.Millisecond {
		r.Fatalf("the wall clock was set by %v during the proof, which then proves nothing", moved)
	}
	recorded := min(int(r.last.Load()), r.want)
	if missing := r.coverage.Missing(r.need); len(missing) > 0 && recorded >= 1000 && r.violations.Load() == 0 {
		r.Errorf("no history shows %s", strings.Join(missing, ", "))
	}
	if unanswered := float64(r.coverage[SawUnheard]) / float64(max(r.operations.Load(), 1)); unanswered > r.unanswered && recorded >= 1000 {
		r.Errorf("%.0f %% of the operations have no answer: such histories say little", 100*unanswered)
	}
	r.Logf("%d histories in %v, the longest search %v; they show %v",
		recorded, time.Since(r.begun).Round(time.Millisecond), r.longest.Round(time.Millisecond), maps.Clone(r.coverage))
	figures := append([]string{fmt.Sprintf("%d operations, %d unanswered", r.operations.Load(), r.coverage[SawUnheard])}, r.figures...)
	proof.Report(r.T, proof.Row{
		Fault: "concurrent histories, linearizable", Store: r.store, Runs: recorded, Violations: int(r.violations.Load()),
		Figure: strings.Join(figures, ", "),
	})
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func closing(t *testing.T, store dedupe.Store) {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
