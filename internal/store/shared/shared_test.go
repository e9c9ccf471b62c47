package shared_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/store/shared"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

const (
	holdEnv = "SIDECALL_TEST_HOLD"
	lease   = time.Second
)

// TestMain lets this program be a process that opens a store, and has it until it is killed.
func TestMain(m *testing.M) {
	if path := os.Getenv(holdEnv); path != "" {
		s, err := shared.Open(context.Background(), path, embedded.Options{})
		if err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString(strconv.FormatBool(s.Holds()) + "\n")
		_, _ = io.Copy(io.Discard, os.Stdin)
		panic("nobody has killed it")
	}
	os.Exit(m.Run())
}

func file(t testing.TB) string {
	t.Helper()
	return filepath.Join(harness.ShortDir(t), "s.db") // a socket has a short name
}

func open(t testing.TB, path string) *shared.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := shared.Open(ctx, path, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A guest's store is a store like any other: what holds of the embedded one, which passes the whole
// suite, holds of it over the wire.
func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness{
		CallsAlone: true, Brief: true,
		Open: func(t testing.TB) dedupe.Store {
			path := file(t)
			if !open(t, path).Holds() {
				t.Fatal("the first is not the holder")
			}
			guest := open(t, path)
			if guest.Holds() {
				t.Fatal("the second is a holder too")
			}
			return guest
		},
	})
}

func request(id string, effect tool.Effect) dedupe.Request {
	return dedupe.Request{
		Key: tool.CallID{Tenant: "acme", ID: id}, Owner: "owner of " + id, Tool: "t", Effect: effect,
		Lease: lease, Retention: time.Hour,
	}
}

func admit(t *testing.T, s *shared.Store, req dedupe.Request) dedupe.Admission {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a, err := s.Admit(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Who has given up asks nobody, also where another process would do it.
func TestWhoHasGivenUpClaimsNothing(t *testing.T) {
	t.Parallel()
	path := file(t)
	open(t, path)
	guest := open(t, path)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 20 {
		if _, err := guest.Admit(ctx, request("x", tool.NonIdempotent)); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if record, err := storetest.Lookup(context.Background(), guest, request("x", 0).Key); err != nil || record.State != dedupe.Absent {
		t.Errorf("%v, %v", record.State, err)
	}
}

// hold has another process be the holder.
func hold(t *testing.T, path string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdEnv+"="+path)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stdin.Close() })
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, len("true\n"))
	if _, err := io.ReadFull(stdout, said); err != nil || string(said) != "true\n" {
		t.Fatalf("the other process is no holder: %q, %v", said, err)
	}
	var once sync.Once
	kill = func() { once.Do(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) }
	t.Cleanup(kill)
	return kill
}

// What the holder has told is on the disk: when it is killed another one has it, and the claim of
// a process that still runs is settled by it, late.
func TestTheHolderIsKilled(t *testing.T) {
	t.Parallel()
	path := file(t)
	kill := hold(t, path)
	first, second := open(t, path), open(t, path)
	if a := admit(t, first, request("done", tool.NonIdempotent)); a.Verdict != dedupe.Won {
		t.Fatal(a.Verdict)
	}
	settle(t, first, "done")
	if a := admit(t, first, request("running", tool.NonIdempotent)); a.Verdict != dedupe.Won {
		t.Fatal(a.Verdict)
	}
	if first.Holds() || second.Holds() {
		t.Fatal("there are two holders")
	}
	kill()
	other := request("done", tool.NonIdempotent)
	other.Owner = "somebody else"
	if a := admit(t, second, other); a.Verdict != dedupe.Replay || string(a.Record.Result) != "it was done" {
		t.Errorf("a call that was done: %v %q", a.Verdict, a.Record.Result)
	}
	other = request("running", tool.NonIdempotent)
	other.Owner = "somebody else"
	if a := admit(t, second, other); a.Verdict != dedupe.OutcomeUnknown {
		t.Errorf("a call whose owner still runs, after the store has changed hands: %v", a.Verdict)
	}
	settle(t, first, "running")
	if a := admit(t, second, other); a.Verdict != dedupe.Replay {
		t.Errorf("a call that its owner has settled late: %v", a.Verdict)
	}
	if first.Holds() == second.Holds() {
		t.Errorf("holders: %v, %v", first.Holds(), second.Holds())
	}
}

func settle(t *testing.T, s *shared.Store, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	of := request(id, tool.NonIdempotent)
	verdict, err := s.Settle(ctx, dedupe.Settlement{
		Key: of.Key, Owner: of.Owner, Epoch: 1, State: dedupe.Done, Attempts: 1, Result: []byte("it was done"), Retention: time.Hour,
	})
	if err != nil || verdict != dedupe.Settled {
		t.Fatalf("%v, %v", verdict, err)
	}
}

// Of many that open a store at once, which there is not yet, one is its holder.
func TestManyOpenAtOnce(t *testing.T) {
	t.Parallel()
	path := file(t)
	opened := make(chan *shared.Store)
	const many = 8
	for range many {
		go func() {
			s, err := shared.Open(t.Context(), path, embedded.Options{})
			if err != nil {
				t.Error(err)
			}
			opened <- s
		}()
	}
	n := 0
	for range many {
		s := <-opened
		if s == nil {
			continue
		}
		t.Cleanup(func() { _ = s.Close() }) // the directory goes too
		if s.Holds() {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d are the holder", n)
	}
}

// While holders leave one after the other, in the middle of the requests of all, each call is
// claimed once.
func TestHoldersLeaveInACrowd(t *testing.T) {
	t.Parallel()
	path := file(t)
	const processes, calls = 6, 200
	stores := make([]*shared.Store, processes)
	for i := range stores {
		stores[i] = open(t, path)
	}
	won := make([]int, calls)
	var mu sync.Mutex
	var wg sync.WaitGroup
	halves := make([]sync.WaitGroup, processes)
	for n, s := range stores {
		halves[n].Add(1)
		wg.Go(func() {
			for i := range calls {
				if i == (n+1)*calls/processes/2 {
					halves[n].Done()
				}
				req := request(strconv.Itoa(i), tool.NonIdempotent)
				req.Owner = strconv.Itoa(n) + " " + strconv.Itoa(i)
				a, err := s.Admit(context.Background(), req)
				switch {
				case errors.Is(err, dedupe.ErrClosed):
					return
				case err != nil:
					t.Error(err)
				case a.Verdict == dedupe.Won && a.Record.Owner == req.Owner:
					mu.Lock()
					won[i]++
					mu.Unlock()
				}
			}
		})
	}
	for n, s := range stores[:processes-1] {
		halves[n].Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	for i, winners := range won {
		if winners > 1 {
			t.Errorf("call %d was claimed by %d", i, winners)
		}
	}
	if !stores[processes-1].Holds() {
		t.Error("the last one is not the holder")
	}
}

func TestANameThatIsTooLong(t *testing.T) {
	t.Parallel()
	_, err := shared.Open(context.Background(), "/"+strings.Repeat("x", 200), embedded.Options{})
	if err == nil || !strings.Contains(err.Error(), "too long for a socket") {
		t.Error(err)
	}
}

func TestAStoreThatIsDamaged(t *testing.T) {
	t.Parallel()
	path := file(t)
	if err := os.WriteFile(path, make([]byte, 10_000), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Open(context.Background(), path, embedded.Options{}); !errors.Is(err, dedupe.ErrCorrupt) {
		t.Error(err)
	}
}
