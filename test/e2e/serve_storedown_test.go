//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// actAndRead is a config with a tool that has an effect and one that has none.
func actAndRead(url, store, rest string) string {
	return fmt.Sprintf(`
store: {redis: {%s}}
backends: {up: {http: {base_url: %q, allow_private: true}}}
tools:
  act: {backend: up, http: {method: POST, path: /act}}
  read: {backend: up, effect: read_only, http: {method: POST, path: /read}}
%s`, store, url, rest)
}

// readyzSays waits until /readyz has a status and, about the store, some words.
func readyzSays(t *testing.T, s *harness.Sidecar, code int, status string, words ...string) {
	t.Helper()
	harness.WaitFor(t, status+" on /readyz", func() bool {
		got, text := s.Get("/readyz")
		for _, word := range append(words, `"status":"`+status+`"`) {
			if !strings.Contains(text, word) {
				return false
			}
		}
		return got == code
	})
}

func TestServeReadinessFollowsTheStore(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	w := faultproxy.Start(t, harness.Redis(t))
	s := harness.Start(t, actAndRead(up.URL, fmt.Sprintf("addrs: [%q]", w.Addr()), ""))
	readyzSays(t, s, http.StatusOK, "ready")
	w.Refuse(true)
	w.Cut()
	readyzSays(t, s, http.StatusServiceUnavailable, "store_down", "redis does not answer", "connection refused", w.Addr())
	if code, _ := s.Get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz = %d: a store that is down is no reason to restart the sidecar", code)
	}
	refusedUnsent(t, s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t1", ToolName: "act"}), "STORE_UNAVAILABLE")
	if res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t2", ToolName: "read"}); res.GetIsError() || res.GetRecorded() {
		t.Errorf("a reader without a store: %v, want an unrecorded success", res)
	}
	w.Refuse(false)
	readyzSays(t, s, http.StatusOK, "ready")
	if res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t1", ToolName: "act"}); res.GetIsError() || !res.GetRecorded() {
		t.Errorf("with the store back: %v", res)
	}
	if n := up.Requests("/act"); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	lives(t, s)
}

// The sidecar is there before Redis, and Redis comes as a replica first.
func TestServeStartsWithoutRedis(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config string
		reads  bool // whether calls without an effect run meanwhile
	}{
		"readers run":         {reads: true},
		"readers are refused": {config: "store_down: {read_only: refuse}"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			up := startUpstream(t)
			srv := redisserver.Start(t, redisserver.Options{})
			host, port, _ := strings.Cut(harness.FreePort(t), ":")
			srv.Do("replicaof", host, port) // where nobody is
			srv.Do("config", "rewrite")
			srv.Kill()
			s := harness.Start(t, actAndRead(up.URL, fmt.Sprintf("addrs: [%q]", srv.Addr), c.config))
			act := &sidecallv1.ExecuteToolRequest{ToolUseId: "t1", ToolName: "act"}
			unavailable := func(round string) {
				refusedUnsent(t, s.Call(act), "STORE_UNAVAILABLE")
				read := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "read " + round, ToolName: "read"})
				switch {
				case c.reads && (read.GetIsError() || read.GetRecorded()):
					t.Errorf("%s: %v, want an unrecorded success", round, read)
				case !c.reads:
					refusedUnsent(t, read, "STORE_UNAVAILABLE")
				}
			}
			readyzSays(t, s, http.StatusServiceUnavailable, "store_down", "redis does not answer", "connection refused", srv.Addr)
			unavailable("down")
			srv.Restart()
			readyzSays(t, s, http.StatusServiceUnavailable, "store_down", "read-only replica")
			unavailable("replica")
			srv.Do("replicaof", "no", "one")
			readyzSays(t, s, http.StatusOK, "ready")
			if res := s.Call(act); res.GetIsError() || !res.GetRecorded() || res.GetReplayed() {
				t.Errorf("with Redis there: %v", res)
			}
			if res := s.Call(act); !res.GetReplayed() {
				t.Errorf("the duplicate: %v", res)
			}
			if n := up.Requests("/act"); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
			if reads := up.Requests("/read"); c.reads != (reads > 0) {
				t.Errorf("%d reads were sent", reads)
			}
			lives(t, s)
		})
	}
}

// A Redis that begins to evict is not to be trusted any more.
func TestServeNoticesARedisThatBeginsToEvict(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	srv := redisserver.Start(t, redisserver.Options{})
	s := harness.Start(t, actAndRead(up.URL, fmt.Sprintf("addrs: [%q]", srv.Addr), ""))
	readyzSays(t, s, http.StatusOK, "ready")
	srv.Do("config", "set", "maxmemory-policy", "allkeys-lru")
	readyzSays(t, s, http.StatusServiceUnavailable, "store_down", "maxmemory-policy", "allkeys-lru")
	refusedUnsent(t, s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t1", ToolName: "act"}), "STORE_UNAVAILABLE")
	srv.Do("config", "set", "maxmemory-policy", "noeviction")
	readyzSays(t, s, http.StatusOK, "ready")
	if res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t1", ToolName: "act"}); !res.GetRecorded() {
		t.Errorf("mended: %v", res)
	}
	if n := up.Requests("/act"); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// Every kind of Redis as it is written in a config file.
func TestServeOnEveryKindOfRedis(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// start returns the keys of the redis block, and secrets that no log may
		// show.
		start func(t *testing.T) (block string, secrets []string)
	}{
		"TLS": {func(t *testing.T) (string, []string) {
			srv := redisserver.Start(t, redisserver.Options{TLS: true, Password: "the-secret"})
			ca, cert, key := srv.TLSFiles()
			return fmt.Sprintf("addrs: [%q], password: the-secret, tls: {ca: %q, cert: %q, key: %q}", srv.Addr, ca, cert, key), []string{"the-secret"}
		}},
		"Sentinel": {func(t *testing.T) (string, []string) {
			data := redisserver.Options{Password: "data-secret"}
			master := redisserver.Start(t, data)
			redisserver.StartReplica(t, master.Addr, data)
			sentinels := redisserver.StartSentinels(t, 1, "main", master.Addr, redisserver.SentinelOptions{
				Replicas: 1, MasterPassword: "data-secret",
				Server: redisserver.Options{Users: []string{"watcher on >sentinel-secret allchannels +@all"}, Password: "root-secret"},
			})
			return fmt.Sprintf("addrs: [%q], master_name: main, password: data-secret, sentinel_username: watcher, sentinel_password: sentinel-secret,"+
				" wait_replicas: 1, wait_timeout: 10s, timeout: 5s", sentinels[0].Addr), []string{"data-secret", "sentinel-secret"}
		}},
		"the example of the chart": {securedRedis},
		"Cluster": {func(t *testing.T) (string, []string) {
			cluster := redisserver.StartCluster(t, 3, 3)
			return fmt.Sprintf("addrs: [%q], cluster: true, wait_replicas: 1, wait_timeout: 10s", cluster.Addrs()[0]), nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := startUpstream(t)
			block, secrets := c.start(t)
			s := harness.Start(t, actAndRead(up.URL, block, ""))
			readyzSays(t, s, http.StatusOK, "ready")
			const calls = 10
			for i := range 2 * calls {
				res := s.Call(&sidecallv1.ExecuteToolRequest{
					ToolUseId: "t", ToolName: "act", ConversationId: fmt.Sprint(i % calls), TurnId: "1",
				})
				if res.GetIsError() || !res.GetRecorded() || res.GetReplayed() != (i >= calls) {
					t.Errorf("call %d: %v", i, res)
				}
			}
			if n := up.Requests("/act"); n != calls {
				t.Errorf("%d requests, want %d", n, calls)
			}
			for _, secret := range secrets {
				if strings.Contains(s.Log(), secret) {
					t.Errorf("the log shows a secret:\n%s", s.Log())
				}
			}
		})
	}
}

// securedRedis are Sentinels, TLS and users, reached as deploy/helm/redis.yaml has it.
func securedRedis(t *testing.T) (block string, secrets []string) {
	t.Helper()
	data := redisserver.Options{TLS: true, Password: "data-secret", Users: []string{"sidecall on >user-secret ~* &* +@all"}}
	master := redisserver.Start(t, data)
	redisserver.StartReplica(t, master.Addr, data)
	sentinels := redisserver.StartSentinels(t, 1, "main", master.Addr, redisserver.SentinelOptions{
		Replicas: 1, MasterPassword: "data-secret",
		Server: redisserver.Options{TLS: true, Users: []string{"watcher on >sentinel-secret allchannels +@all"}, Password: "root-secret"},
	})
	text, err := os.ReadFile(filepath.Join(harness.Root(), "deploy", "helm", "redis.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ = strings.Cut(string(text), "    redis:\n")
	block, _, found := strings.Cut(block, "  backends:")
	ca, cert, key := master.TLSFiles()
	for _, r := range [][2]string{
		{`"sentinel-0.redis:26379", "sentinel-1.redis:26379", "sentinel-2.redis:26379"`, strconv.Quote(sentinels[0].Addr)},
		{`"${file:/etc/sidecall/secrets/redis-password}"`, "user-secret"}, {`"${env:SENTINEL_PASSWORD}"`, "sentinel-secret"},
		{"/etc/sidecall/redis-tls/ca.crt", ca}, {"/etc/sidecall/redis-tls/tls.crt", cert}, {"/etc/sidecall/redis-tls/tls.key", key},
	} {
		found = found && strings.Contains(block, r[0])
		block = strings.Replace(block, r[0], r[1], 1)
	}
	if !found {
		t.Fatalf("the example has something else:\n%s", block)
	}
	var keys []string
	for line := range strings.Lines(block) {
		said, _, _ := strings.Cut(line, " #")
		keys = append(keys, strings.TrimSpace(said))
	}
	return strings.Join(keys, ", ") + ", wait_timeout: 10s, timeout: 5s", []string{"data-secret", "user-secret", "sentinel-secret"}
}

// With too few replicas nothing is acknowledged, so nothing is sent.
func TestServeRefusesClaimsThatNoReplicaHas(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	srv := redisserver.Start(t, redisserver.Options{})
	s := harness.Start(t, actAndRead(up.URL, fmt.Sprintf("addrs: [%q], wait_replicas: 1, wait_timeout: 20ms", srv.Addr), ""))
	refusedUnsent(t, s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t1", ToolName: "act"}), "STORE_UNAVAILABLE")
	redisserver.StartReplica(t, srv.Addr, redisserver.Options{})
	harness.WaitFor(t, "the call to run", func() bool {
		res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t1", ToolName: "act"})
		return !res.GetIsError() && res.GetRecorded()
	})
	if n := up.Requests("/act"); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}
