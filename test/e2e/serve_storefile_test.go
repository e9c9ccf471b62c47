//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// counted is an upstream that counts what it did for each id, and keeps back the
// answers to those that begin with "held".
type counted struct {
	URL     string
	arrived chan struct{}
	open    chan struct{}

	mu   sync.Mutex
	done map[string]int
}

func startCounted(t *testing.T) *counted {
	t.Helper()
	c := &counted{arrived: make(chan struct{}, 100), open: make(chan struct{}), done: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var args struct {
			ID string `json:"id"`
		}
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		c.done[args.ID]++
		c.mu.Unlock()
		if strings.HasPrefix(args.ID, "held") {
			c.arrived <- struct{}{}
			<-c.open
		}
		_, _ = io.WriteString(w, `{"done":true}`)
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// executions is how often a call was executed.
func (c *counted) executions(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done[id]
}

// known is a call whose upstream knows it by its id.
func known(tool, id string) *sidecallv1.ExecuteToolRequest {
	return &sidecallv1.ExecuteToolRequest{ToolUseId: id, ToolName: tool, ConversationId: "c", ArgumentsJson: fmt.Sprintf(`{"id":%q}`, id)}
}

// storeMishaps are what somebody does to the file of a sidecar that runs. copied
// is a copy of the file that was made before the last calls.
var storeMishaps = map[string]struct {
	do func(path string, copied []byte) error
	// restart says what the next start makes of it.
	restart func(w *storeMishap, t *testing.T)
}{
	"cut to nothing": {func(path string, _ []byte) error { return os.Truncate(path, 0) }, (*storeMishap).isRefused},
	"zeroed": {func(path string, _ []byte) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(make([]byte, info.Size()), 0)
		return errors.Join(err, f.Close())
	}, (*storeMishap).isRefused},
	"removed": {func(path string, _ []byte) error { return os.Remove(path) }, (*storeMishap).forgetsAll},
	"replaced by a copy": {func(path string, copied []byte) error {
		if err := os.WriteFile(path+".copy", copied, 0o600); err != nil {
			return err
		}
		return os.Rename(path+".copy", path)
	}, (*storeMishap).forgetsWhatTheCopyLacks},
	"overwritten by a copy": {func(path string, copied []byte) error { return os.WriteFile(path, copied, 0o600) }, (*storeMishap).forgetsWhatTheCopyLacks},
}

// storeMishap is a sidecar whose file something happens to.
type storeMishap struct {
	s    *harness.Sidecar
	up   *counted
	path string
	held []<-chan answered
}

const heldCalls = 4

// before makes calls: some that a copy of the file knows, some that came after
// it, and some that are at work.
func (w *storeMishap) before(t *testing.T) (copied []byte) {
	t.Helper()
	record := func(id string) {
		if res := w.s.Call(known("act", id)); !res.GetRecorded() {
			t.Fatalf("%s: %v", id, res)
		}
	}
	for i := range 5 {
		record(fmt.Sprint("copied ", i))
	}
	w.s.Stop() // a copy is made while nobody writes
	copied, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	w.s.Run()
	for i := range 5 {
		record(fmt.Sprint("later ", i))
	}
	for i := range heldCalls {
		result := goCall(t, w.s, known("act", fmt.Sprint("held ", i)))
		<-w.up.arrived
		w.held = append(w.held, result)
	}
	return copied
}

func goCall(t *testing.T, s *harness.Sidecar, req *sidecallv1.ExecuteToolRequest) <-chan answered {
	t.Helper()
	result := make(chan answered, 1)
	go func() {
		res, err := execute(t, s, req)
		result <- answered{res, err}
	}()
	return result
}

// settles lets the calls at work end: each gets its result, and hears that it
// could not be recorded.
func (w *storeMishap) settles(t *testing.T) {
	t.Helper()
	close(w.up.open)
	for i, result := range w.held {
		if got := <-result; got.err != nil || got.res.GetIsError() || got.res.GetRecorded() {
			t.Errorf("call %d at work: %v, %v; want its result, not recorded", i, got.res, got.err)
		}
	}
}

// claims makes new calls, many at the same time: none is sent.
func (w *storeMishap) claims(t *testing.T) {
	t.Helper()
	var results []<-chan answered
	for i := range 16 {
		results = append(results, goCall(t, w.s, known("act", fmt.Sprint("new ", i))))
	}
	for i, result := range results {
		got := <-result
		if got.err != nil {
			t.Errorf("new call %d: %v", i, got.err)
			continue
		}
		refusedUnsent(t, got.res, "STORE_UNAVAILABLE")
		if n := w.up.executions(fmt.Sprint("new ", i)); n != 0 {
			t.Errorf("new call %d was executed %d times", i, n)
		}
	}
}

// isRefused: the file is damaged, and stays as it is.
func (w *storeMishap) isRefused(t *testing.T) {
	t.Helper()
	says(t, refusedStart(t, w.s, 3), "sidecall.db", "left untouched", "restore a copy")
}

// forgetsAll: there is no file, so there is a new one, and all ids are new.
func (w *storeMishap) forgetsAll(t *testing.T) {
	t.Helper()
	w.s.Run()
	w.runsAgain(t, "copied 0", true)
	w.runsAgain(t, "later 0", true)
	w.runsAgain(t, "held 0", true)
}

// forgetsWhatTheCopyLacks: what was done after the copy was made runs again.
func (w *storeMishap) forgetsWhatTheCopyLacks(t *testing.T) {
	t.Helper()
	w.s.Run()
	w.runsAgain(t, "copied 0", false)
	w.runsAgain(t, "later 0", true)
	w.runsAgain(t, "held 0", true)
}

func (w *storeMishap) runsAgain(t *testing.T, id string, again bool) {
	t.Helper()
	res := w.s.Call(known("act", id))
	want := 1
	if again {
		want = 2
	}
	if n := w.up.executions(id); res.GetIsError() || res.GetReplayed() == again || n != want {
		t.Errorf("%s after the restart: executed %d times, want %d: %v", id, n, want, res)
	}
}

// Whatever happens to the file under a running sidecar: it says so, answers all,
// starts nothing with an effect, and ends when it is asked to.
func TestServeWhenItsFileIsDamagedOrGone(t *testing.T) {
	t.Parallel()
	for what, mishap := range storeMishaps {
		for first, order := range map[string][]func(*storeMishap, *testing.T){
			"a settlement": {(*storeMishap).settles, (*storeMishap).claims},
			"a claim":      {(*storeMishap).claims, (*storeMishap).settles},
			"nobody":       {(*storeMishap).isUnready, (*storeMishap).claims, (*storeMishap).settles},
		} {
			t.Run(what+", and "+first+" meets it first", func(t *testing.T) {
				t.Parallel()
				up := startCounted(t)
				s := harness.New(t, fmt.Sprintf(`
backends: {up: {http: {base_url: %q, allow_private: true}}}
tools:
  act: {backend: up, http: {method: POST, path: /act}}
  read: {backend: up, effect: read_only, http: {method: POST, path: /read}}
`, up.URL))
				s.Run()
				w := &storeMishap{s: s, up: up, path: filepath.Join(s.Dir, "sidecall.db")}
				if err := mishap.do(w.path, w.before(t)); err != nil {
					t.Fatal(err)
				}
				for _, step := range order {
					step(w, t)
				}
				w.isUnready(t)
				if res := s.Call(known("read", "r")); res.GetIsError() || res.GetRecorded() {
					t.Errorf("a reader: %v, want an unrecorded success", res)
				}
				says(t, s.Call(known("act", "more")).GetError().GetConstraint(), "sidecall.db", "has failed")
				lives(t, s)
				if n := strings.Count(s.Log(), `"level":"ERROR","msg":"the store has failed`); n != 1 {
					t.Errorf("the log says %d times that the store has failed:\n%s", n, s.Log())
				}
				if s.Stop(); strings.Contains(s.Log(), "still in flight") { // it would have waited for all of its time to drain
					t.Errorf("it ended without an answer to a call\n%s", s.Log())
				}
				mishap.restart(w, t)
			})
		}
	}
}

func (w *storeMishap) isUnready(t *testing.T) {
	t.Helper()
	readyzSays(t, w.s, http.StatusServiceUnavailable, "store_down", "sidecall.db has failed")
}
