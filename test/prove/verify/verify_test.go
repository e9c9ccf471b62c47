//go:build prove

package verify

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

const (
	// notRunAfter is from when on the sidecars believe that a call whose effect
	// is not there has not run. It is what an effect may be late, and what the
	// machine may stand still between a request and its arrival.
	notRunAfter = latest + 8*time.Second
	// latest is how long after its arrival an effect may come, at the most. The
	// upstream keeps to it: what would come later does not come at all.
	latest = 4 * time.Second
	// patience bounds the duplicates of one call.
	patience = 2 * time.Minute
)

// fate is what the upstream makes of the first request of a call.
type fate uint32

const (
	answered  fate = iota // carried out and answered
	lost                  // carried out, the connection closed
	hung                  // carried out, never answered
	swallowed             // not carried out, never answered
	refused               // not carried out, the connection closed
	late                  // the connection closed, carried out a while after
	fates
)

var fateNames = [fates]string{"answered", "answer lost", "no answer", "swallowed", "cut", "late"}

// till is the upstream: it carries payments out, as their fate will have it.
type till struct {
	ledger *upstream.Ledger
	closed chan struct{}
	slow   sync.WaitGroup // effects that come late

	mu   sync.Mutex
	seen map[string]bool
	met  [fates]int
	// repeated counts the requests after the first of a call.
	repeated atomic.Int64
}

// serve starts a till.
func serve(t *testing.T) (*till, string) {
	t.Helper()
	u := &till{ledger: upstream.NewLedger(), closed: make(chan struct{}), seen: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /look", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"executions":%d}`, u.ledger.Executions(r.URL.Query().Get("key")))
	})
	mux.HandleFunc("POST /pay/{key}", u.pay)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		close(u.closed)
		u.slow.Wait()
		server.Close()
	})
	return u, server.URL
}

// fateOf is the fate of the first request of a call; later ones are carried out
// and answered.
func (u *till) fateOf(key string) fate {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := answered
	if u.seen[key] {
		u.repeated.Add(1)
	} else {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(key)) // cannot fail
		f = fate(hash.Sum32() % uint32(fates))
	}
	u.seen[key] = true
	u.met[f]++
	return f
}

func (u *till) pay(w http.ResponseWriter, r *http.Request) {
	arrived, key := time.Now(), r.PathValue("key")
	_, _ = io.Copy(io.Discard, r.Body) // a client that left is seen below
	f := u.fateOf(key)
	if f == answered || f == lost || f == hung {
		u.execute(key)
	}
	switch f {
	case answered:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"executions":1}`) // as above
	case hung, swallowed:
		select {
		case <-r.Context().Done():
		case <-u.closed:
		}
	case late:
		u.slow.Go(func() { u.executeLate(key, arrived) })
		closeUnanswered(w)
	case lost, refused:
		closeUnanswered(w)
	case fates:
		panic("no fate is the number of them")
	}
}

func (u *till) execute(key string) {
	if err := u.ledger.Write(key); err != nil {
		panic(err) // a ledger without a file takes everything
	}
}

// executeLate carries a payment out some time after its request, and not when
// the machine was so busy that its time is over.
func (u *till) executeLate(key string, arrived time.Time) {
	timer := time.NewTimer(time.Duration(rand.Int64N(int64(latest / 2))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-u.closed:
		return
	}
	if time.Since(arrived) < latest {
		u.execute(key)
	}
}

func closeUnanswered(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_ = conn.(*net.TCPConn).SetLinger(0) // then it is a close, which is as good
	_ = conn.Close()                     // that it fails for the client is the point
}

func config(store, url string) string {
	return store + fmt.Sprintf(`lease: 2s
backends:
  up: {http: {base_url: %q, allow_private: true}, breaker: {failures: 1000000}, max_in_flight: 1000}
tools:
  look: {backend: up, http: {method: GET, path: /look}, input_schema: {type: object, properties: {key: {type: string}}, required: [key]}}
  pay:
    backend: up
    http: {method: POST, path: "/pay/{key}"}
    attempt_timeout: 500ms
    deadline: 2s
    verify: {tool: look, args: {key: "args.key"}, done_when: "result.executions > 0", not_run_when: "result.executions == 0", not_run_after: %s, result: "result"}
`, url, notRunAfter)
}

// Calls come to their end by their duplicates alone, while sidecars are killed.
func TestVerificationBringsCallsToTheirEnd(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		endings(t, "embedded", "", 1)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		endings(t, "redis", fmt.Sprintf("store: {redis: {addrs: [%q]}}\n", harness.Redis(t)), 2)
	})
}

func endings(t *testing.T, name, store string, sidecars int) {
	u, url := serve(t)
	p := &payments{}
	for range sidecars {
		p.sidecars = append(p.sidecars, harness.Start(t, config(store, url)))
	}
	calls := proof.Runs(300, 5_000)
	ended := make(chan error, 1)
	go func() {
		var group errgroup.Group
		group.SetLimit(64)
		for i := range calls {
			group.Go(func() error { return p.bring(t.Context(), fmt.Sprint("order-", i)) })
		}
		ended <- group.Wait()
	}()
	kills := p.killUntil(t, ended)
	p.finish(t, u, name, calls, kills)
}

// payments is one run of the proof.
type payments struct {
	sidecars []*harness.Sidecar
	// unknown counts the answers that did not know, found those that a
	// verification gave.
	unknown, found atomic.Int64
	unfinished     atomic.Int64
}

// killUntil kills a sidecar now and then and starts it again, until all calls
// have ended.
func (p *payments) killUntil(t *testing.T, ended <-chan error) (kills int) {
	t.Helper()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			return kills
		case <-time.After(3 * time.Second): // the pace of the faults
			s := p.sidecars[kills%len(p.sidecars)]
			s.Kill()
			s.Run()
			kills++
		}
	}
}

// bring sends a call again and again, to whatever sidecar, until it has a
// result.
func (p *payments) bring(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for n := rand.IntN(len(p.sidecars)); ; n++ {
		res, err := p.sidecars[n%len(p.sidecars)].Client.ExecuteTool(ctx, &sidecallv1.ExecuteToolRequest{
			ToolUseId: key, ToolName: "pay", ArgumentsJson: fmt.Sprintf(`{"key":%q}`, key),
		})
		switch code := res.GetError().GetCode(); {
		case ctx.Err() != nil:
			p.unfinished.Add(1)
			return fmt.Errorf("%s is not at its end after %v: %v", key, patience, res)
		case err != nil: // killed, or starting
		case code == "" && res.GetResolution() != nil:
			p.found.Add(1)
			return nil
		case code == "":
			return nil
		case code == "OUTCOME_UNKNOWN":
			p.unknown.Add(1)
		case code == "IN_PROGRESS", code == "OVERLOADED", code == "TIMEOUT", strings.HasSuffix(code, "_UNAVAILABLE"): // not sent, or not yet at its end
		default:
			return fmt.Errorf("%s got %v", key, res)
		}
		select { // between two duplicates
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// finish counts what happened twice, and what did not.
func (p *payments) finish(t *testing.T, u *till, store string, calls, kills int) {
	t.Helper()
	violations := int(p.unfinished.Load())
	for i := range calls {
		key := fmt.Sprint("order-", i)
		if n := u.ledger.Executions(key); n != 1 {
			violations++
			t.Errorf("%s has happened %d times", key, n)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for f, n := range u.met {
		if n == 0 {
			t.Errorf("no request was %s", fateNames[f])
		}
	}
	if kills == 0 || p.found.Load() == 0 || p.unknown.Load() == 0 || u.repeated.Load() == 0 {
		t.Errorf("%d kills, %d answers found, %d unknown, %d calls run again: each has to be there", kills, p.found.Load(), p.unknown.Load(), u.repeated.Load())
	}
	left, err := p.sidecars[0].Operators().ListUnknown(t.Context(), &sidecallv1.ListUnknownRequest{})
	if err != nil || len(left.GetExecutions()) > 0 {
		violations++
		t.Errorf("unknown calls are left: %v, %v", left, err)
	}
	proof.Report(t, proof.Row{
		Fault: "answer lost, request swallowed, effect late, kill -9: verification decides", Store: store, Runs: calls, Violations: violations,
		Figure: fmt.Sprintf("%d executions of %d ids, %d answers found, %d calls given back and run once, %d kills", u.ledger.Total(), calls, p.found.Load(), u.repeated.Load(), kills),
	})
}
