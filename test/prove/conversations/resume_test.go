//go:build prove

package conversations

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	sidecall "github.com/sidecall/sidecall/clients/go"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// patience bounds a run on a machine that is busy.
const patience = 2 * time.Minute

// point is where an agent dies: at a request of its own, or while the shop has a request
// of its call: "arrived", before the effect; "paid", after it; "answered".
type point struct {
	method, when string
	nth          int
}

// points are all of them: the messages of the user, of two turns and of their results and
// the last word are appended one after the other.
var points = func() (all []point) {
	for nth := range 6 {
		for _, when := range []string{"before", "in", "after"} {
			all = append(all, point{"AppendMessages", when, nth})
		}
	}
	for nth := range 2 {
		for _, when := range []string{"before", "in", "after"} {
			all = append(all, point{"RunMessage", when, nth})
		}
	}
	for _, when := range []string{"arrived", "paid", "answered"} {
		all = append(all, point{"shop", when, 0}, point{"shop", when, 1}, point{"shop", when, 2})
	}
	return all
}()

// shop takes payments, and kills who pays.
type shop struct {
	t      *testing.T
	ledger *upstream.Ledger
	URL    string

	mu     sync.Mutex
	payers map[string]*payer // by order
	pids   map[int]*payer
}

// payer is an agent that is to die.
type payer struct {
	at   point
	seen int
	kill func()
}

func openShop(t *testing.T) *shop {
	s := &shop{t: t, ledger: upstream.NewLedger(), payers: map[string]*payer{}, pids: map[int]*payer{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payer/{order}", s.register)
	mux.HandleFunc("POST /pay/{order}", s.pay)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

func (s *shop) register(_ http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	pid, err2 := strconv.Atoi(string(text))
	if err = errors.Join(err, err2); err != nil {
		s.t.Error(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pids[pid]; p != nil {
		s.payers[r.PathValue("order")] = p
	}
}

// dies kills whoever pays for an order, if this is where that is to be.
func (s *shop) dies(order, when string) {
	s.mu.Lock()
	p := s.payers[order]
	mine := p != nil && p.at.when == when && p.seen == p.at.nth
	if p != nil && p.at.when == when {
		p.seen++
	}
	s.mu.Unlock()
	if mine {
		p.kill()
	}
}

func (s *shop) pay(w http.ResponseWriter, r *http.Request) {
	order := r.PathValue("order")
	s.dies(order, "arrived")
	if err := s.ledger.Write(order); err != nil {
		s.t.Error(err)
	}
	s.dies(order, "paid")
	fmt.Fprint(w, "paid ", order)
	s.dies(order, "answered")
}

func (s *shop) config(store string) string {
	return fmt.Sprintf(`
store: %s
lease: 1m
profiles: {all: {}}
default_profile: all
backends: {shop: {http: {base_url: %q, allow_private: true}, max_in_flight: 256}}
tools:
  pay:
    backend: shop
    effect: non_idempotent
    http: {method: POST, path: "/pay/{order}"}
    input_schema: {type: object, properties: {order: {type: string}}, required: [order]}
`, store, s.URL)
}

// play starts the provider.
func play(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("python3", "played.py")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(stdin.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(url)
}

// theatre is all that a run needs.
type theatre struct {
	shop     *shop
	sidecar  *harness.Sidecar
	provider string

	mu                              sync.Mutex
	runs, killed, violations, calls int
	t                               *testing.T
}

func (th *theatre) violated(format string, args ...any) {
	th.mu.Lock()
	defer th.mu.Unlock()
	if th.violations++; th.violations <= 10 {
		th.t.Errorf(format, args...)
	}
}

// agent runs a process to its end; killed says how it ended.
func (th *theatre) agent(j job, at *point) (killed bool, err error) {
	j.Sidecar, j.Provider, j.Shop = th.sidecar.Addr, th.provider, th.shop.URL
	if at != nil && at.method != "shop" {
		j.Kill, j.When, j.Nth = at.method, at.when, at.nth
	}
	text, err := json.Marshal(j)
	if err != nil {
		return false, err
	}
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var said strings.Builder
	cmd := exec.CommandContext(ctx, self)
	cmd.Env, cmd.Stderr = append(os.Environ(), jobVariable+"="+string(text)), &said
	if err := cmd.Start(); err != nil {
		return false, err
	}
	dead := make(chan error, 1)
	gone := make(chan struct{})
	go func() { dead <- cmd.Wait(); close(gone) }()
	if at != nil && at.method == "shop" {
		th.shop.mu.Lock()
		th.shop.pids[cmd.Process.Pid] = &payer{at: *at, kill: func() {
			_ = cmd.Process.Kill() // it may have ended
			<-gone
		}}
		th.shop.mu.Unlock()
	}
	err = <-dead
	th.shop.mu.Lock()
	delete(th.shop.pids, cmd.Process.Pid)
	th.shop.mu.Unlock()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && ctx.Err() == nil {
		return true, nil
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, said.String())
	}
	return false, err
}

// run kills an agent at a point, has another go on, and looks at what there is then.
func (th *theatre) run(n int, format sidecall.Format) {
	at := points[n%len(points)]
	j := job{Conversation: fmt.Sprint("c-", format, "-", n), Format: format}
	killed, err := th.agent(j, &at)
	if err != nil {
		th.violated("%s, killed at %v: %v", j.Conversation, at, err)
		return
	}
	for range 2 { // the first goes on; the other finds nothing to do
		if again, err := th.agent(j, nil); err != nil || again {
			th.violated("%s, killed at %v: the next one: %v", j.Conversation, at, err)
			return
		}
	}
	calls := th.check(j, at)
	th.mu.Lock()
	defer th.mu.Unlock()
	th.runs++
	th.calls += calls
	if killed {
		th.killed++
	}
}

// check compares the conversation with what the shop has done.
func (th *theatre) check(j job, at point) (calls int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := sidecall.Dial("tcp://" + th.sidecar.Addr)
	if err != nil {
		th.violated("%v", err)
		return 0
	}
	defer client.Close()
	kept, err := client.Conversation(ctx, j.Conversation, j.Format)
	if err != nil {
		th.violated("%s, killed at %v: %v", j.Conversation, at, err)
		return 0
	}
	array := append(slices.Clone(kept.Messages), json.RawMessage(`{"role":"user","content":"Thank you."}`))
	if _, err := askProvider(ctx, th.provider, j.Format, array); err != nil {
		th.violated("%s, killed at %v: %v", j.Conversation, at, err)
	}
	text := string(join(kept.Messages))
	orders := ordersIn(text)
	for order := range orders {
		if n := th.shop.ledger.Executions(order); n != 1 {
			th.violated("%s, killed at %v: %s was paid %d times", j.Conversation, at, order, n)
		}
		if n := strings.Count(text, "paid "+order); n != 1 {
			th.violated("%s, killed at %v: %s has %d results: %s", j.Conversation, at, order, n, text)
		}
	}
	if len(orders) != 3 {
		th.violated("%s, killed at %v: %d calls, want 3: %s", j.Conversation, at, len(orders), text)
	}
	return len(orders)
}

func join(messages []json.RawMessage) (all []byte) {
	for _, m := range messages {
		all = append(append(all, m...), '\n')
	}
	return all
}

// ordersIn are the orders that calls of a conversation are for.
func ordersIn(text string) map[string]bool {
	orders := map[string]bool{}
	for _, part := range strings.Split(strings.ReplaceAll(text, `\`, ""), `"order":`)[1:] {
		part = strings.TrimSpace(part)
		orders[strings.Split(part, `"`)[1]] = true
	}
	return orders
}

// A loop is killed at every point of its conversation, and another process goes on with
// it: every call has one result and one effect, and the provider takes the array.
func TestLoopsAreKilledAndResumed(t *testing.T) {
	for _, store := range []string{"embedded", "redis"} {
		th := &theatre{t: t, shop: openShop(t), provider: play(t)}
		settings := "{embedded: {path: ./sidecall.db}}"
		if store == "redis" {
			settings = fmt.Sprintf("{redis: {addrs: [%q]}}", redisserver.Start(t, redisserver.Options{}).Addr)
		}
		th.sidecar = harness.New(t, th.shop.config(settings))
		th.sidecar.Run()
		total := 0
		for _, format := range []sidecall.Format{sidecall.Anthropic, sidecall.OpenAI, sidecall.OpenAIResponses} {
			th.runs, th.killed, th.violations, th.calls = 0, 0, 0, 0
			var group errgroup.Group
			group.SetLimit(8)
			runs, stride := proof.Runs(len(points), 1_023), 1
			if format != sidecall.Anthropic && !proof.Full() {
				runs, stride = len(points)/3, 3
			}
			for n := range runs {
				group.Go(func() error { th.run(stride*n, format); return nil })
			}
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			if th.killed < th.runs*9/10 {
				t.Errorf("%d of %d agents were killed", th.killed, th.runs)
			}
			if total += th.calls; th.shop.ledger.Total() != total {
				th.violated("%d payments, and conversations have %d", th.shop.ledger.Total(), total)
			}
			proof.Report(t, proof.Row{
				Fault: fmt.Sprintf("loop killed at every point of its conversation, %s", format), Store: store,
				Runs: th.runs, Violations: th.violations,
				Figure: fmt.Sprintf("%d points, %d loops killed, each gone on with by another process; %d calls, as many effects", len(points), th.killed, th.calls),
			})
		}
	}
}
