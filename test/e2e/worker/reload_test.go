//go:build e2e

package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// changing is a yard whose config changes.
type changing struct {
	*yard
	head string // what the harness says before the config
	n    int
}

// marked is a config of worker backends, by which one sees that it has taken over.
func marked(backends string, n int) string {
	return fmt.Sprintf("backends: {%ssh: {exec: {env: [PATH]}}}\ntools: {mark%d: {backend: sh, exec: {argv: [cat]}}}\n", backends, n)
}

func startChanging(t *testing.T, backends string) *changing {
	t.Helper()
	y := start(t, inGo, marked(backends, 0))
	text, err := os.ReadFile(y.Config)
	head, whole := strings.CutSuffix(string(text), marked(backends, 0))
	if err != nil || !whole {
		t.Fatalf("the config is not what was said: %v\n%s", err, text)
	}
	return &changing{yard: y, head: head}
}

// becomes has other worker backends take over.
func (c *changing) becomes(backends string) {
	c.t.Helper()
	c.n++
	text := []byte(c.head + marked(backends, c.n))
	if err := errors.Join(os.WriteFile(c.Config+"~", text, 0o600), os.Rename(c.Config+"~", c.Config)); err != nil {
		c.t.Fatal(err)
	}
	c.Signal(syscall.SIGHUP)
	harness.WaitFor(c.t, "the reload", func() bool { return slices.Contains(c.Tools(), fmt.Sprint("mark", c.n)) })
}

// load calls act, in four lanes, until stop, which says how many calls there were: each
// with a key of its own, and each has to succeed.
func (c *changing) load() (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	var lanes sync.WaitGroup
	counts := make([]int, 4)
	for lane := range counts {
		lanes.Go(func() { // ends with ctx
			for ctx.Err() == nil {
				key := fmt.Sprintf("L%d-%d", lane, counts[lane])
				res, err := c.Client.ExecuteTool(context.Background(), request(key, "act", fmt.Sprintf(`{"key":%q}`, key)))
				if err != nil || res.GetIsError() {
					c.t.Errorf("%s: %v, %v", key, res, err)
					return
				}
				counts[lane]++
			}
		})
	}
	return func() (all int) {
		cancel()
		lanes.Wait()
		for lane, n := range counts {
			all += n
			for i := range n {
				if key := fmt.Sprintf("ran L%d-%d", lane, i); c.count(key) != 1 {
					c.t.Errorf("%s: %d times", key, c.count(key))
				}
			}
		}
		return all
	}
}

// Workers in processes of their own serve on while one config after the other takes over:
// no call fails, none runs twice, and those that they had end as they began. Whom a config
// tells nothing else stays on its stream.
func TestWorkersOverReloadsUnderLoad(t *testing.T) {
	t.Parallel()
	c := startChanging(t, "local: {worker: {heartbeat: 60s}}, ")
	one, two := c.hire(0), c.hire(0)
	stop := c.load()
	var held []<-chan *sidecallv1.ExecuteToolResponse
	again := 1
	for n, step := range []struct {
		backends string
		told     bool
	}{
		{"local: {worker: {heartbeat: 60s}}, ", false},
		{"local: {worker: {heartbeat: 60s}, max_in_flight: 200}, ", true},
		{"local: {worker: {heartbeat: 60s}, max_in_flight: 200, tools: {act: {max_output_chars: 900}}}, ", false},
		{"local: {worker: {heartbeat: 90s}, max_in_flight: 200}, ", true},
		{"local: {worker: {heartbeat: 90s}, max_in_flight: 200, effects: {again: idempotent}}, ", true},
		{"local: {worker: {heartbeat: 90s, max_workers: 2}, max_in_flight: 200, effects: {again: idempotent}}, other: {worker: {}, prefix: other_}, ", false},
		{"local: {worker: {heartbeat: 60s, max_workers: 2}}, ", true},
	} {
		key := fmt.Sprint("H", n)
		held = append(held, c.asked(key, "act", fmt.Sprintf(`{"key":%q,"then":"wait"}`, key)))
		c.ran(key)
		c.becomes(step.backends)
		if step.told {
			again++
		}
		one.registered(again)
		two.registered(again)
	}
	if err := c.note("let go"); err != nil {
		t.Fatal(err)
	}
	for n, answered := range held {
		want(t, <-answered, "")
		if key := fmt.Sprint("ran H", n); c.count(key) != 1 {
			t.Errorf("%s: %d times", key, c.count(key))
		}
	}
	if calls := stop(); calls == 0 {
		t.Error("there was no load")
	}
	for _, p := range []*program{one, two} {
		if n := strings.Count(p.said.String(), "registered\n"); n != again {
			t.Errorf("a worker registered %d times; want %d", n, again)
		}
	}
	harness.WaitFor(t, "the streams before to end", func() bool {
		_, page := c.Get("/metrics")
		return strings.Contains(page, `sidecall_workers{sidecall_backend="local"} 2`)
	})
}

// A worker whose backend goes with a config has what it has to the end, and its program
// is told.
func TestAWorkerWhoseBackendGoes(t *testing.T) {
	t.Parallel()
	c := startChanging(t, "local: {worker: {}}, ")
	p := c.hire(0)
	held := c.asked("1", "act", `{"key":"A","then":"wait"}`)
	c.ran("A")
	c.becomes("")
	want(t, c.Call(request("2", "act", `{"key":"B"}`)), "UNKNOWN_TOOL")
	if err := c.note("let go"); err != nil {
		t.Fatal(err)
	}
	want(t, <-held, "")
	<-p.end
	if said := p.said.String(); !strings.Contains(said, "no worker backend is configured") {
		t.Errorf("the program says\n%s", said)
	}
	c.becomes("local: {worker: {}}, ")
	c.hire(0)
	want(t, c.Call(request("2", "act", `{"key":"B"}`)), "") // nothing was recorded: nothing was done
}

// A tool that a config gives to another backend is that one's at once; the worker that
// had it is told whose it is now.
func TestAWorkerWhoseToolIsTaken(t *testing.T) {
	t.Parallel()
	c := startChanging(t, "local: {worker: {}}, ")
	p := c.hire(0)
	held := c.asked("1", "act", `{"key":"A","then":"wait"}`)
	c.ran("A")
	c.n++
	text := c.head + strings.Replace(marked("local: {worker: {}}, ", c.n), "tools: {", "tools: {act: {backend: sh, exec: {argv: [echo, shell]}}, ", 1)
	if err := os.WriteFile(c.Config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Signal(syscall.SIGHUP)
	harness.WaitFor(t, "the reload", func() bool { return slices.Contains(c.Tools(), "mark1") })
	if res := c.Call(request("2", "act", `{}`)); res.GetContent() != "shell\n" {
		t.Errorf("it is answered by %v", res)
	}
	if err := c.note("let go"); err != nil {
		t.Fatal(err)
	}
	want(t, <-held, "")
	<-p.end
	if said := p.said.String(); !strings.Contains(said, `the name "act" is that of a tool of the backend sh`) {
		t.Errorf("the program says\n%s", said)
	}
}
