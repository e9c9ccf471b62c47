package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// Crash kills processes in the middle of their calls, and then asks the store
// and the ledger of what really ran whether they agree.
type Crash struct {
	// Command is a process that opens the store and does Work on it.
	Command func() *exec.Cmd
	// Open opens the store after the last kill.
	Open func(t testing.TB) dedupe.Store
	// Ledger is the path that Work is given.
	Ledger string
	Rounds int
	// Between, when not nil, happens between two rounds.
	Between func(t *testing.T, round int)
}

// crashWorkers is how many calls a process has open at a time.
const crashWorkers = 8

func resultOf(id int) string { return fmt.Sprintf("receipt %d", id*7919) }

func crashRequest(id int) dedupe.Request {
	return dedupe.Request{
		Key: tool.CallID{Tenant: "acme", Conversation: strconv.Itoa(id % 13), Turn: "1", ID: strconv.Itoa(id)}, Tool: "charge",
		Effect: tool.NonIdempotent, Fingerprint: [32]byte{byte(id)}, Terms: terms("all", strconv.Itoa(id)),
	}
}

// Work makes calls that must not repeat until the process is killed: claim,
// write the id into the fsynced ledger, settle. Now and then it asks for an
// older id again. It returns only when something is wrong.
func Work(store dedupe.Store, ledger string, lease time.Duration) error {
	begin, err := readLedger(ledger)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	d := dedupe.New(store, dedupe.Options{Lease: lease})
	var next atomic.Int64
	next.Store(int64(max(0, len(begin)-2*crashWorkers)))
	failed := make(chan error, crashWorkers)
	for range crashWorkers {
		go func() { // ends with the process
			for {
				id := int(next.Add(1))
				if err := errors.Join(oneCall(d, f, id), oneCall(d, f, rand.IntN(id))); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

func oneCall(d *dedupe.Dedupe, ledger *os.File, id int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	admission, claim, err := Admit(ctx, d, crashRequest(id))
	switch {
	case err != nil:
		return nil // nothing is known, so nothing is done
	case admission.Verdict == dedupe.Won:
		if _, err := fmt.Fprintf(ledger, "%d\n", id); err != nil {
			return err
		}
		if err := ledger.Sync(); err != nil {
			return err
		}
		return settleUntilHeard(claim, id)
	case admission.Verdict == dedupe.Replay && string(admission.Record.Result) != resultOf(id):
		return fmt.Errorf("call %d replays %q", id, admission.Record.Result)
	case admission.Verdict == dedupe.Mismatch:
		return fmt.Errorf("call %d is taken for another", id)
	default:
		return nil
	}
}

// settleUntilHeard goes on where Settle gives up, on a busy machine, after a
// lease as short as a test's.
func settleUntilHeard(claim *dedupe.Claim, id int) (err error) {
	for range 100 {
		end := dedupe.Settlement{State: dedupe.Done, Attempts: 1, Result: []byte(resultOf(id))}
		if _, err = claim.Settle(context.Background(), end); err == nil {
			return nil
		}
	}
	return err
}

// readLedger counts how often each id ran.
func readLedger(path string) (map[int]int, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ran := map[int]int{}
	for line := range bytes.Lines(b) {
		id, err := strconv.Atoi(string(bytes.TrimSpace(line)))
		if err != nil {
			return nil, err
		}
		ran[id]++
	}
	return ran, nil
}

// Run does the rounds and checks the end.
func (c Crash) Run(t *testing.T) {
	t.Helper()
	for round := range c.Rounds {
		c.killOnce(t, 10+rand.IntN(60))
		if c.Between != nil {
			c.Between(t, round)
		}
	}
	ran, err := readLedger(c.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	c.check(t, ran)
}

// killOnce starts a process and kills it when it has made some more calls.
func (c Crash) killOnce(t *testing.T, calls int) {
	t.Helper()
	size := func() int64 {
		info, err := os.Stat(c.Ledger)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	before := size()
	var stderr bytes.Buffer
	cmd := c.Command()
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	for deadline := time.Now().Add(time.Minute); size() < before+int64(3*calls); {
		select {
		case err := <-exited:
			t.Fatalf("the process ended by itself: %v\n%s", err, stderr.String())
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Errorf("the process made no calls\n%s", stderr.String())
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil { // SIGKILL
		t.Fatal(err)
	}
	if err := <-exited; err == nil {
		t.Error("the process ended well although it was killed")
	}
}

// check compares the ledger with the store.
func (c Crash) check(t *testing.T, ran map[int]int) {
	t.Helper()
	s := &suite{T: t, store: c.Open(t), lease: time.Second}
	last := 0
	for id, times := range ran {
		last = max(last, id)
		if times > 1 {
			t.Errorf("call %d ran %d times", id, times)
		}
	}
	known := map[tool.CallID]int{}
	for _, call := range s.find(byTerm("all")) {
		known[call.Key]++
	}
	var done, unknown atomic.Int32
	var crowd sync.WaitGroup
	for worker := range crashWorkers {
		crowd.Go(func() {
			for id := worker; id <= last+crashWorkers; id += crashWorkers {
				var got dedupe.Record
				k := crashRequest(id).Key
				s.await(fmt.Sprintf("call %d is decided", id), func() bool {
					got = s.lookup(k)
					return got.State != dedupe.Claimed
				})
				if want := min(1, int(got.State)); known[k] != want { // absent is 0
					t.Errorf("call %d, which is %v, is found %d times", id, got.State, known[k])
				}
				if id%20 == 0 && len(s.find(byTerm(strconv.Itoa(id)))) != known[k] {
					t.Errorf("call %d is found otherwise by its own term", id)
				}
				switch {
				case got.State == dedupe.Done && string(got.Result) == resultOf(id) && ran[id] == 1:
					done.Add(1)
				case got.State == dedupe.Unknown:
					unknown.Add(1)
				case got.State == dedupe.Absent && ran[id] == 0:
				case got.State == dedupe.NotRun && ran[id] == 0: // given back: its answer came too late
				default:
					t.Errorf("call %d ran %d times and is %v with %q", id, ran[id], got.State, got.Result)
				}
			}
		})
	}
	crowd.Wait()
	t.Logf("%d kills: %d calls ran, %d done, %d unknown", c.Rounds, len(ran), done.Load(), unknown.Load())
	// Each worker can have been between claim and settlement at each kill, with
	// a new call or one asked for again.
	if limit := int32(c.Rounds * crashWorkers); unknown.Load() > limit {
		t.Errorf("%d calls are unknown, more than the %d that were open when a process was killed", unknown.Load(), limit)
	}
}
