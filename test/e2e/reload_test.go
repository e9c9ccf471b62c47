//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// replace replaces the config of a running sidecar as editors do: by a file that gets its
// name when it is whole.
func replace(t *testing.T, s *harness.Sidecar, text string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(s.Config+"~", []byte(text), 0o600), os.Rename(s.Config+"~", s.Config)); err != nil {
		t.Fatal(err)
	}
}

// changed replaces words of the config of a running sidecar, and returns it as it was.
func changed(t *testing.T, s *harness.Sidecar, pairs ...string) (before string) {
	t.Helper()
	data, err := os.ReadFile(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the config has no %q", pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	replace(t, s, text)
	return string(data)
}

// reloads are the configs that have taken over, as /metrics counts them.
func reloads(s *harness.Sidecar) int { return metricOf(s, "sidecall_config_reloads_total") }

// metricOf is a whole number of /metrics; -1 when it is not there.
func metricOf(s *harness.Sidecar, name string) int {
	_, page := s.Get("/metrics")
	for line := range strings.Lines(page) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == name {
			if n, err := strconv.ParseFloat(words[1], 64); err == nil {
				return int(n)
			}
		}
	}
	return -1
}

// reloaded sends a SIGHUP and waits until another config has taken over.
func reloaded(t *testing.T, s *harness.Sidecar) {
	t.Helper()
	before := reloads(s)
	s.Signal(syscall.SIGHUP)
	defer func() {
		if t.Failed() {
			_, page := s.Get("/readyz")
			t.Logf("/readyz: %s", page)
		}
	}()
	harness.WaitFor(t, "the reload", func() bool { return reloads(s) > before })
}

// A call that is at work when the config changes ends as it began, and is known by its id
// under every config after that.
func TestAConfigThatChangesUnderACall(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		const act = "act: {backend: up, "
		for name, change := range map[string][]string{
			"removed":        {"  " + act + "description: Does it., http: {method: POST, path: /act}}\n", "  other: {backend: up, http: {method: GET, path: /x}}\n"},
			"renamed":        {act, "do: {backend: up, "},
			"another effect": {act, act + "effect: idempotent, "},
			"narrowed":       {"tools:\n", "profiles: {p: {tools: [none]}}\ndefault_profile: p\ntools:\n", unwatched, ""},
			"another place":  {"http: {base_url", "http: {headers: {X-New: \"yes\"}, base_url"},
		} {
			t.Run(name, func(t *testing.T) {
				g := startGate(t)
				s := harness.Start(t, unwatched+store+oneTool(g.URL))
				slow := startSlow(t, s, g, name)
				changed(t, s, change...)
				reloaded(t, s)
				close(g.open)
				first := <-slow
				if first.err != nil || first.res.GetIsError() || first.res.GetReplayed() || !first.res.GetRecorded() {
					t.Fatalf("it ended as %v, %v", first.res, first.err)
				}
				again, err := execute(t, s, &sidecallv1.ExecuteToolRequest{ToolUseId: name, ToolName: "act"})
				if err != nil || !again.GetReplayed() || again.GetContent() != first.res.GetContent() {
					t.Errorf("under the new config it is answered by %v, %v", again, err)
				}
				if n := g.effects.Load(); n != 1 {
					t.Errorf("it ran %d times", n)
				}
				lives(t, s)
			})
		}
	})
}

// unwatched are profiles that keep no test from anything.
const unwatched = "default_profile: code\nprofiles: {code: {loop_guard: {off: true}}}\n"

// The file is wrong: all goes on with what was right, and everybody who asks is told.
func TestABadConfigFileChangesNothing(t *testing.T) {
	t.Parallel()
	up := startTill(t)
	up.Script("/act", upstream.Echo())
	s := harness.Start(t, up.tools("store: {memory: {}}\n"))
	good := changed(t, s, "  act: {", "  act: {efect: keyed, ")
	readyzSays(t, s, http.StatusOK, "degraded", "sidecall.yaml:", "tools.act.efect: unknown key; did you mean")
	if res := s.Call(callOf("1")); res.GetIsError() {
		t.Errorf("a call: %v", res)
	}
	if health := healthOf(t, s, ""); health != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("its health: %v", health)
	}
	if code, out, _ := harness.CLI(t, "ready", "--admin", s.Admin); code != 0 || !strings.Contains(out, "config refused, the one before it stays in force: ") {
		t.Errorf("sidecall ready: exit code %d, %s", code, out)
	}
	replace(t, s, good)
	readyzSays(t, s, http.StatusOK, "ready")

	changed(t, s, "lease: 2s", "lease: 3s", "path: /act", "path: /elsewhere")
	readyzSays(t, s, http.StatusOK, "degraded", "lease: this is not what the sidecar was started with, and needs a restart")
	if res := s.Call(callOf("2")); res.GetIsError() || up.Requests("/act") != 2 {
		t.Errorf("what needs no restart took over: %v", res)
	}
	if metricOf(s, "sidecall_config_refusals_total") != 2 {
		t.Error("two configs were refused, and /metrics does not say so")
	}
	replace(t, s, good)
	readyzSays(t, s, http.StatusOK, "ready")
}

// Kubernetes replaces a ConfigMap and a Secret by a link that leads to another directory.
func TestAConfigMapAndASecretAreReplaced(t *testing.T) {
	t.Parallel()
	var seen atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen.Store(r.Header.Get("Authorization")) }))
	t.Cleanup(server.Close)
	volume := t.TempDir()
	publish := func(version string, files map[string]string) {
		t.Helper()
		err := os.Mkdir(filepath.Join(volume, version), 0o700)
		for name, text := range files {
			err = errors.Join(err, os.WriteFile(filepath.Join(volume, version, name), []byte(text), 0o600))
		}
		link := filepath.Join(volume, "..data")
		if err := errors.Join(err, os.Symlink(version, link+"_tmp"), os.Rename(link+"_tmp", link)); err != nil {
			t.Fatal(err)
		}
	}
	s := harness.New(t, fmt.Sprintf("store: {memory: {}}\nbackends: {up: {http: {base_url: %q, allow_private: true, headers: {Authorization: \"Bearer ${file:%s}\"}}}}\n", server.URL, filepath.Join(volume, "token"))+
		"tools:\n  act: {backend: up, http: {method: POST, path: /act}}\n")
	config, err := os.ReadFile(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	publish("..v1", map[string]string{"sidecall.yaml": string(config), "token": "first-t0ken\n"})
	s.Config = filepath.Join(volume, "sidecall.yaml")
	for _, name := range []string{"sidecall.yaml", "token"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(volume, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.Run()
	n := 0
	sends := func(want string) bool {
		n++
		return !s.Call(callOf(fmt.Sprint(n))).GetIsError() && seen.Load() == want
	}
	if !sends("Bearer first-t0ken") {
		t.Fatalf("it sent %v", seen.Load())
	}
	publish("..v2", map[string]string{"sidecall.yaml": string(config), "token": "other-t0ken\n"})
	harness.WaitFor(t, "the other token", func() bool { return sends("Bearer other-t0ken") })
	publish("..v3", map[string]string{"sidecall.yaml": strings.ReplaceAll(string(config), "act:", "do:"), "token": "third-t0ken\n"})
	harness.WaitFor(t, "the other tool", func() bool { return slices.Contains(s.Tools(), "do") })
	if log := s.Log(); strings.Contains(log, "t0ken") {
		t.Errorf("a token is in the log\n%s", log)
	}
}

// countedAPI is an API that counts what is connected to it.
func countedAPI(t *testing.T) (url string, open *atomic.Int64) {
	t.Helper()
	open = new(atomic.Int64)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"done":true}`)) }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state { //nolint:exhaustive // of the others nothing is counted
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, open
}

// load makes calls of tools, one after the other in each of two lanes, until stop, which
// returns how many there were. Each of them has to succeed.
func load(t *testing.T, s *harness.Sidecar, tools map[string]string) (stop func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var lanes sync.WaitGroup
	var calls atomic.Int64
	for name, args := range tools {
		for lane := range 2 {
			lanes.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					res, err := s.Client.ExecuteTool(context.WithoutCancel(ctx), &sidecallv1.ExecuteToolRequest{ToolUseId: fmt.Sprint(name, lane, "-", n), ToolName: name, ArgumentsJson: args})
					if err != nil || res.GetIsError() {
						t.Errorf("%s: %v, %v", name, res, err)
						return
					}
					calls.Add(1)
					time.Sleep(2 * time.Millisecond) // a load, and no flood in which no server could start
				}
			})
		}
	}
	return func() int64 {
		cancel()
		lanes.Wait()
		return calls.Load()
	}
}

// children are how many processes a sidecar has started that run now.
func children(t *testing.T, mark string) int {
	t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range environs {
		if environ, err := os.ReadFile(path); err == nil && slices.Contains(strings.Split(string(environ), "\x00"), mark) {
			n++
		}
	}
	return n
}

// No call fails for the configs that come and go under it, and nothing of them stays.
func TestTwentyReloadsUnderLoad(t *testing.T) {
	t.Parallel()
	url, open := countedAPI(t)
	mark := "SIDECALL_TEST_DIR=" + t.TempDir()
	kept, err := mcpservers.Everything()
	kept.Env = append(kept.Env, mark)
	restarted, err2 := mcpservers.Time()
	restarted.Env = append(restarted.Env, mark)
	config := func(n int) string {
		again := stdio(t)(restarted, err2)
		again["mcp"].(map[string]any)["connect_timeout"] = "10m"
		again["mcp"].(map[string]any)["env"].(map[string]string)["N"] = fmt.Sprint("n", n/7)
		return unwatched + inYAML(t, map[string]any{
			"store": map[string]any{"memory": map[string]any{}},
			"backends": map[string]any{
				"every": with(stdio(t)(kept, err), "max_in_flight", 100+n),
				"time":  with(again, "prefix", "time_"),
				"up":    map[string]any{"http": map[string]any{"base_url": url, "allow_private": true, "headers": map[string]any{"X-Version": fmt.Sprint("v", n/3)}}},
				"sh":    map[string]any{"exec": map[string]any{"env": []string{"PATH"}}},
			},
			"tools": map[string]any{
				"post":                map[string]any{"backend": "up", "http": map[string]any{"method": "POST", "path": fmt.Sprint("/v", n)}},
				"count":               map[string]any{"backend": "sh", "exec": map[string]any{"argv": []string{"wc", "-c"}}},
				fmt.Sprint("tool", n): map[string]any{"backend": "up", "http": map[string]any{"method": "POST", "path": "/other"}},
			},
		})
	}
	first := config(0) // whose keys are in another order each time
	s := harness.Start(t, first)
	harness.WaitFor(t, "readiness", func() bool { code, _ := s.Get("/readyz"); return code == http.StatusOK })
	head, whole := strings.CutSuffix(readConfig(t, s), first)
	if !whole {
		t.Fatalf("the config is not what was said:\n%s", readConfig(t, s))
	}
	pid := processWith(t, "N=n0")
	tools := map[string]string{"post": "{}", "count": "{}", "echo": `{"message":"hello"}`, "time_get_current_time": `{"timezone":"Etc/UTC"}`}
	idle := func() (goroutines, descriptors, processes int) {
		return metricOf(s, "go_goroutines"), metricOf(s, "process_open_fds"), children(t, mark)
	}
	load(t, s, tools)() // so that every connection has been made once
	goroutines, descriptors, processes := idle()

	stop := load(t, s, tools)
	for n := 1; n <= 20; n++ {
		replace(t, s, head+config(n))
		reloaded(t, s)
	}
	if calls := stop(); calls < 20 {
		t.Errorf("only %d calls", calls)
	}
	if got := s.Tools(); !slices.Contains(got, "tool20") || slices.Contains(got, "tool19") {
		t.Errorf("the tools are %q", got)
	}
	harness.WaitFor(t, "all before the last config to be gone", func() bool {
		return metricOf(s, `sidecall_config_generations{sidecall_config_state="retiring"}`) == 0
	})
	if now := processWith(t, "N=n0"); now != 0 && now == pid {
		t.Error("a server of the first config still runs")
	}
	var now [3]int
	defer func() {
		t.Logf("goroutines %d → %d, descriptors %d → %d, processes %d → %d, %d connections", goroutines, now[0], descriptors, now[1], processes, now[2], open.Load())
	}()
	harness.WaitFor(t, "what was there before, and no more", func() bool {
		now[0], now[1], now[2] = idle()
		return now[0] <= goroutines && now[1] <= descriptors && now[2] == processes && open.Load() <= 2
	})
}

func readConfig(t *testing.T, s *harness.Sidecar) string {
	t.Helper()
	data, err := os.ReadFile(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
