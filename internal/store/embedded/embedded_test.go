package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashChild); path != "" {
		runCrashChild(path)
		return
	}
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) dedupe.Store { return open(t, filepath.Join(t.TempDir(), "store.db"), Options{}) },
		In:   synctest.Test,
	})
}

// open opens a store that is closed at the end of the test. A process that another test starts has
// the lock of the file until it runs its program: in the time of a bubble the usual wait is none.
func open(t testing.TB, path string, options Options) *Store {
	t.Helper()
	options.LockWait = cmp.Or(options.LockWait, 10*time.Minute)
	s, err := Open(path, options)
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

func request(id string, effect tool.Effect) dedupe.Request {
	return dedupe.Request{
		Key: tool.CallID{Tenant: "acme", Conversation: "c", Turn: "1", ID: id}, Tool: "refund", Effect: effect,
		Owner: "owner of " + id, Lease: time.Minute, Retention: 24 * time.Hour,
	}
}

func settlement(id string, result string) dedupe.Settlement {
	return dedupe.Settlement{
		Key: request(id, 0).Key, Owner: "owner of " + id, Epoch: 1, State: dedupe.Done,
		Attempts: 1, Result: []byte(result), Retention: 24 * time.Hour,
	}
}

func claim(t testing.TB, s *Store, req dedupe.Request) dedupe.Record {
	t.Helper()
	a, err := s.Admit(context.Background(), req)
	if err != nil || a.Verdict != dedupe.Won {
		t.Fatalf("claim %q: %v, %v", req.Key.ID, a.Verdict, err)
	}
	return a.Record
}

func finished(t testing.TB, s *Store, id, result string) {
	t.Helper()
	claim(t, s, request(id, tool.NonIdempotent))
	settle(t, s, settlement(id, result))
}

func settle(t testing.TB, s *Store, end dedupe.Settlement) {
	t.Helper()
	if v, err := s.Settle(context.Background(), end); err != nil || v != dedupe.Settled {
		t.Fatalf("settle %q: %v, %v", end.Key.ID, v, err)
	}
}

func lookup(t testing.TB, s *Store, id string) dedupe.Record {
	t.Helper()
	r, err := storetest.Lookup(context.Background(), s, request(id, 0).Key)
	if err != nil {
		t.Fatalf("lookup %q: %v", id, err)
	}
	return r
}

// catcher is an engine that only looks at a step.
type catcher struct{ op *operation }

func (c *catcher) Do(_ context.Context, step *dedupe.Step) error {
	c.op = newOperation(step)
	return nil
}

// admitting and settling are operations as a store hands them to its committer.
func admitting(t testing.TB, req dedupe.Request) *operation {
	t.Helper()
	var caught catcher
	if _, err := (dedupe.Machine{Engine: &caught}).Admit(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	return caught.op
}

func settling(t testing.TB, end dedupe.Settlement) *operation {
	t.Helper()
	var caught catcher
	if _, err := (dedupe.Machine{Engine: &caught}).Settle(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	return caught.op
}

// standStill lets the disk stand still, with the committer waiting for it, until it is told
// to go on.
func (s *Store) standStill(t testing.TB) (goesOn func()) {
	t.Helper()
	stands, released, sync := make(chan struct{}), make(chan struct{}), s.file.sync
	s.file.sync = func() error {
		close(stands)
		<-released
		s.file.sync = sync
		return sync()
	}
	go s.do(context.Background(), own(dedupe.Frees, 0, func(t *txn) {
		t.SetValue(dedupe.ValueKey{Kind: 't', Name: "whatever"}, "x", time.Hour)
	}))
	<-stands
	return func() { close(released) }
}

// reopen is a restart.
func reopen(t testing.TB, s *Store) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, s.file.path, s.options)
}

func TestARestartRemembers(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	finished(t, s, "done", "refunded")
	claim(t, s, request("charge", tool.NonIdempotent))
	claim(t, s, request("read", tool.ReadOnly))
	claim(t, s, request("keyed", tool.Keyed))
	kept := settlement("with output", "short")
	kept.Output = &dedupe.Output{Ref: "ref", Data: []byte(strings.Repeat("long ", 100_000)), TTL: time.Hour}
	claim(t, s, request("with output", tool.NonIdempotent))
	settle(t, s, kept)

	s = reopen(t, s)
	if got := lookup(t, s, "done"); got.State != dedupe.Done || string(got.Result) != "refunded" {
		t.Errorf("done came back as %v, %q", got.State, got.Result)
	}
	if got, err := s.Output(context.Background(), "acme", "ref"); err != nil || string(got.Data) != string(kept.Output.Data) {
		t.Errorf("the output came back as %d bytes, %v", len(got.Data), err)
	}

	// Its owner is dead, and nobody knows whether the charge went through ...
	if got := lookup(t, s, "charge"); got.State != dedupe.Unknown || got.FinishedAt.IsZero() || got.Owner != "owner of charge" {
		t.Errorf("charge came back as %+v", got)
	}
	again := request("charge", tool.NonIdempotent)
	again.Owner = "another"
	if a, err := s.Admit(context.Background(), again); err != nil || a.Verdict != dedupe.OutcomeUnknown {
		t.Errorf("charge again: %v, %v", a.Verdict, err)
	}
	// ... but a journal may know.
	settle(t, s, settlement("charge", "charged"))

	for _, id := range []string{"read", "keyed"} {
		effect := map[string]tool.Effect{"read": tool.ReadOnly, "keyed": tool.Keyed}[id]
		if got := lookup(t, s, id); got.State != dedupe.NotRun {
			t.Errorf("%s came back as %v, want free to run again", id, got.State)
		}
		again := request(id, effect)
		again.Owner = "another"
		if got := claim(t, s, again); got.Epoch != 2 {
			t.Errorf("%s was claimed again at epoch %d, want 2", id, got.Epoch)
		}
	}
}

// A claim that several restarts left alone is still decided, and its owner's
// settlement, replayed, still counts.
func TestRestartsDoNotForgetOpenClaims(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	for i := range 2*resumeBatch/1000 + 3 {
		for range 3 {
			s = reopen(t, s)
		}
		claim(t, s, request(fmt.Sprint("keyed ", i), tool.Keyed))
	}
	s = reopen(t, s)
	settle(t, s, settlement("keyed 0", "from the journal"))
	if got := lookup(t, s, "keyed 1"); got.State != dedupe.NotRun {
		t.Errorf("keyed 1 is %v", got.State)
	}
}

func TestManyOpenClaimsAreDecidedInBatches(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	n := 2*resumeBatch + 10
	var crowd sync.WaitGroup
	for worker := range 256 {
		crowd.Go(func() {
			for i := worker; i < n; i += 256 {
				if _, err := s.Admit(context.Background(), request(fmt.Sprint(i), tool.NonIdempotent)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	crowd.Wait()
	s = reopen(t, s)
	for i := range n {
		if got := lookup(t, s, fmt.Sprint(i)); got.State != dedupe.Unknown {
			t.Fatalf("%d is %v", i, got.State)
		}
	}
}

func TestOneProcessAtATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, Options{})
	_, err := Open(path, Options{LockWait: 10 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "another process is using it: stop that, or") {
		t.Fatalf("got %v", err)
	}
	// One that waits gets it when the other is gone.
	opened := make(chan error)
	go func() {
		second, err := Open(path, Options{LockWait: time.Minute})
		if err == nil {
			err = second.Close()
		}
		opened <- err
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

func TestADirectoryThatIsNotThere(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := Open(filepath.Join(dir, "store.db"), Options{}); err == nil || !strings.HasSuffix(err.Error(), "its directory does not exist: create it, or choose another path") {
		t.Errorf("got %v", err)
	}
}

// Of many who create the store at once, all use the same file, one after the
// other, and nothing else is left in the directory.
func TestManyCreateTheStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	var crowd sync.WaitGroup
	for i := range 8 {
		crowd.Go(func() {
			s, err := Open(path, Options{LockWait: time.Minute})
			if err != nil {
				t.Error(err)
				return
			}
			finished(t, s, fmt.Sprint(i), "ok")
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	crowd.Wait()
	s := open(t, path, Options{})
	for i := range 8 {
		if got := lookup(t, s, fmt.Sprint(i)); got.State != dedupe.Done {
			t.Errorf("%d is %v: there were two stores", i, got.State)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("left in the directory: %v, %v", files, err)
	}
	if info, err := files[0].Info(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// What a process has left that was killed while it made the store is taken over, and is never
// taken for a store; what cannot be that is left alone.
func TestAStoreThatWasNeverFinished(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		left string
		says string // why there is no store then; empty where there is
	}{
		"nothing yet":            {"", ""},
		"half a head":            {format, ""},
		"a file of somebody's":   {strings.Repeat("x", segmentsAt+1), "store.db.unfinished is in the way"},
		"something of one's own": {strings.Repeat("x", segmentsAt), ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store.db")
			if err := os.WriteFile(path+unfinished, []byte(c.left), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.says != "" {
				if _, err := Open(path, Options{}); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("it opens: %v", err)
				}
				if left, err := os.ReadFile(path + unfinished); err != nil || string(left) != c.left {
					t.Errorf("it was changed: %v", err)
				}
				return
			}
			finished(t, open(t, path, Options{}), "x", "ok")
			if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
				t.Errorf("left in the directory: %v, %v", files, err)
			}
		})
	}
}

// Who finds that another process is making the store waits for it, and takes what it has made.
func TestAStoreThatAnotherMakes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	other, err := os.Create(path + unfinished)
	if err == nil {
		_, err = lock(other, other.Name())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{LockWait: 10 * time.Millisecond}); !errors.Is(err, ErrInUse) {
		t.Errorf("while it is made: %v", err)
	}
	if err := other.Close(); err != nil { // it was killed
		t.Fatal(err)
	}
	finished(t, open(t, path, Options{}), "x", "ok")
}

// A link that leads nowhere is not replaced by a store: that would be in another place.
func TestALinkToNothingIsNoStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.Symlink("nowhere", path); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it opens: %v", err)
	}
	if to, err := os.Readlink(path); err != nil || to != "nowhere" {
		t.Errorf("it was replaced: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		path    string
		corrupt bool
	}{
		"an empty file":         {write("empty", ""), true},
		"a short file":          {write("short", "x"), true},
		"another kind of file":  {write("text", strings.Repeat("listen: 127.0.0.1\n", 5000)), true},
		"a directory":           {dir, false},
		"no such directory":     {filepath.Join(dir, "missing", "store.db"), false},
		"a file as a directory": {filepath.Join(write("file", "x"), "store.db"), false},
	} {
		before, _ := os.ReadFile(c.path)
		_, err := Open(c.path, Options{})
		if err == nil || errors.Is(err, dedupe.ErrCorrupt) != c.corrupt || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: got %v", name, err)
		}
		if after, _ := os.ReadFile(c.path); string(after) != string(before) {
			t.Errorf("%s: was changed", name)
		}
	}
}

func TestTimeNeverGoesBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, Options{})
	// The wall clock was wrong by a day when the store last wrote.
	s.clock = newClock(time.Now().Add(24 * time.Hour))
	before := claim(t, s, request("x", tool.NonIdempotent))
	s = reopen(t, s)
	after := claim(t, s, request("y", tool.NonIdempotent))
	if !after.StartedAt.After(before.StartedAt) {
		t.Errorf("a claim after a restart is dated %v, the one before it %v", after.StartedAt, before.StartedAt)
	}
}

func TestAWithdrawnRequestHasNoEffect(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	goesOn := s.standStill(t)
	ctx, cancel := context.WithCancel(context.Background())
	answered := make(chan error)
	go func() {
		_, err := s.Admit(ctx, request("x", tool.NonIdempotent))
		answered <- err
	}()
	for len(s.queue) == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-answered; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "withdrawn") {
		t.Errorf("got %v", err)
	}
	goesOn()
	claim(t, s, request("y", tool.NonIdempotent)) // after which it would be there
	if got := lookup(t, s, "x"); got.State != dedupe.Absent {
		t.Errorf("it was stored after all: %v", got.State)
	}
}

// What changes nothing is answered while the disk is busy, whatever was asked for.
func TestWhatChangesNothingWaitsForNobody(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	finished(t, s, "x", "ok")
	defer s.standStill(t)()
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	again := request("x", tool.NonIdempotent)
	again.Owner = "another"
	if a, err := s.Admit(ctx, again); err != nil || a.Verdict != dedupe.Replay || string(a.Record.Result) != "ok" {
		t.Errorf("admitted: %v %q, %v", a.Verdict, a.Record.Result, err)
	}
	note := dedupe.Note{Key: again.Key, Appends: []dedupe.Append{{Log: "guard", Entry: []byte("x"), Keep: 1}}, Retention: time.Hour}
	if n, err := s.Note(ctx, note); err != nil || n.Record.State != dedupe.Done {
		t.Errorf("noted: %v, %v", n.Record.State, err)
	}
	if r, err := storetest.Lookup(ctx, s, again.Key); err != nil || r.State != dedupe.Done {
		t.Errorf("looked up: %v, %v", r.State, err)
	}
}

func TestCloseAnswersWhoeverWaits(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	var crowd sync.WaitGroup
	for worker := range 64 {
		crowd.Go(func() {
			for i := 0; ; i++ {
				_, err := s.Admit(context.Background(), request(fmt.Sprint(worker, " ", i), tool.NonIdempotent))
				if errors.Is(err, dedupe.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for lookup(t, s, "5 5").State == dedupe.Absent {
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	crowd.Wait()
}
