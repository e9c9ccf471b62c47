//go:build e2e

package e2e

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

// effects counts what has happened, by its name.
type effects struct {
	mu    sync.Mutex
	count map[string]int
	url   string
}

func startEffects(t *testing.T) *effects {
	t.Helper()
	e := &effects{count: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.count[r.URL.Path]++
		e.mu.Unlock()
		_, _ = io.WriteString(w, "done") // whoever has asked may be gone
	}))
	t.Cleanup(server.Close)
	e.url = server.URL
	return e
}

// Wrappers on one state, and their servers, are killed again and again while clients make calls, and
// send each again under its id until they hear of it: no call happens twice, and one that is
// answered with a result has happened.
func TestWrappersAreKilledAtRandom(t *testing.T) {
	t.Parallel()
	const clients, callsEach = 3, 10
	e, state := startEffects(t), harness.ShortDir(t)
	everything := there(t)(mcpservers.Everything())
	answers := make([]map[string]string, clients)
	var all sync.WaitGroup
	for n := range clients {
		answers[n] = map[string]string{}
		all.Go(func() {
			mark := "SIDECALL_TEST_DIR=" + state + strconv.Itoa(n)
			server := everything
			server.Env = append(slices.Clone(server.Env), mark)
			c := startWrapped(t, state, nil, server)
			for i := range callsEach {
				// Every third call is of all clients.
				id := strconv.Itoa(n) + "-" + strconv.Itoa(i)
				if i%3 == 0 {
					id = "all-" + strconv.Itoa(i)
				}
				for {
					dying := kill(t, c, mark)
					res, err := c.try(id, fetch, map[string]any{"name": "page.gz", "data": e.url + "/" + id, "outputType": "resource"})
					<-dying
					if err == nil {
						text, _ := json.Marshal(res)
						if !strings.Contains(string(text), "DEPENDENCY_UNAVAILABLE") && !strings.Contains(string(text), "CIRCUIT_OPEN") &&
							!strings.Contains(string(text), "STORE_UNAVAILABLE") && !strings.Contains(string(text), "IN_PROGRESS") {
							answers[n][id] = string(text)
							break
						}
					}
					if c.dead() {
						c = startWrapped(t, state, nil, server)
					}
				}
			}
		})
	}
	all.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	for path, n := range e.count {
		if n > 1 {
			t.Errorf("%s happened %d times", path, n)
		}
	}
	unknown := 0
	for _, heard := range answers {
		for id, answer := range heard {
			if strings.Contains(answer, "OUTCOME_UNKNOWN") {
				unknown++
			} else if e.count["/"+id] != 1 || !strings.Contains(answer, "page.gz") {
				t.Errorf("%s happened %d times, and is answered %s", id, e.count["/"+id], answer)
			}
		}
	}
	t.Logf("%d calls happened, %d answers say that nobody knows", len(e.count), unknown)
}

// kill kills a wrapper or its server, in a third of all cases each, within the time that a call takes.
func kill(t *testing.T, c *wrapClient, mark string) <-chan struct{} {
	t.Helper()
	done := make(chan struct{})
	which, after := rand.N(3), rand.N(15*time.Millisecond)
	go func() {
		defer close(done)
		time.Sleep(after) // at any step
		switch which {
		case 1:
			_ = c.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
		case 2:
			for _, pid := range processesWith(t, mark) {
				if pid != c.cmd.Process.Pid {
					_ = syscall.Kill(pid, syscall.SIGKILL) // likewise
				}
			}
		}
	}()
	return done
}

// dead reports that the wrapper of a client is gone.
func (c *wrapClient) dead() bool {
	return syscall.Kill(c.cmd.Process.Pid, 0) != nil || zombie(c.cmd.Process.Pid)
}

// zombie reports that a process has ended and nobody has waited for it.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}
