//go:build e2e

package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// The memory store says at the start what it is, and is.
func TestMemoryForgets(t *testing.T) {
	t.Parallel()
	s, up := paysWith(t, "memory: {}")
	if log := s.Log(); !strings.Contains(log, "forgets everything when the process ends") {
		t.Errorf("no warning:\n%s", log)
	}
	s.Call(pay("call"))
	if res := s.Call(pay("call")); !res.GetReplayed() || up.Ledger.Executions("call") != 1 {
		t.Errorf("a duplicate: %s, %d executions", res.GetContent(), up.Ledger.Executions("call"))
	}
	s.Kill()
	s.Run()
	if res := s.Call(pay("call")); res.GetReplayed() || up.Ledger.Executions("call") != 2 {
		t.Errorf("after a restart: %s, %d executions; the guarantees say that it runs again", res.GetContent(), up.Ledger.Executions("call"))
	}
}

// paysWith is a sidecar on a store, with one tool that must not run twice and
// executes at an upstream that counts.
func paysWith(t *testing.T, store string) (*harness.Sidecar, *upstream.Server) {
	t.Helper()
	up, err := upstream.Start(upstream.New(upstream.NewLedger()), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := up.Close(); err != nil {
			t.Error(err)
		}
	})
	return harness.Start(t, fmt.Sprintf(`
store: {%s}
journal: {enabled: false}
backends: {shop: {http: {base_url: %q, allow_private: true}}}
tools:
  pay: {backend: shop, effect: non_idempotent, http: {method: %s, path: /pay}}
`, store, up.URL, http.MethodPost)), up
}

func pay(id string) *sidecallv1.ExecuteToolRequest {
	return &sidecallv1.ExecuteToolRequest{ToolUseId: id, ToolName: "pay", ArgumentsJson: fmt.Sprintf(`{"key":%q}`, id)}
}

// With appendfsync everysec the kernel has every write before it is answered: a
// Redis that is killed forgets nothing. A machine that loses power forgets what
// was not synced, here imitated by a file that lacks its end, and what it forgot
// runs again: that is the promise of the setting, and no more.
func TestAppendOnlyFileEverySecond(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "everysec"}})
	s, up := paysWith(t, fmt.Sprintf("redis: {addrs: [%q]}", srv.Addr))
	const calls = 50
	for i := range calls {
		if res := s.Call(pay(fmt.Sprintf("call-%02d", i))); res.GetIsError() || !res.GetRecorded() {
			t.Fatal(res.GetContent())
		}
	}
	// A call is sent again until the sidecar has its store again: what is refused until then was sent nowhere.
	again := func(id string) (res *sidecallv1.ExecuteToolResponse) {
		for range 100 {
			if res = s.Call(pay(id)); res.GetError().GetCode() != "STORE_UNAVAILABLE" {
				break
			}
		}
		return res
	}
	srv.Kill()
	srv.Restart()
	for i := range calls {
		id := fmt.Sprintf("call-%02d", i)
		if res := again(id); !res.GetReplayed() || up.Ledger.Executions(id) != 1 {
			t.Errorf("%s after a kill: replayed %v, %d executions: %s", id, res.GetReplayed(), up.Ledger.Executions(id), res.GetContent())
		}
	}

	last := fmt.Sprintf("call-%02d", calls-1)
	srv.Kill()
	cutBefore(t, srv.Dir, last)
	srv.Restart()
	if res := again("call-00"); !res.GetReplayed() || up.Ledger.Executions("call-00") != 1 {
		t.Errorf("what was synced: replayed %v, %d executions", res.GetReplayed(), up.Ledger.Executions("call-00"))
	}
	if res := again(last); res.GetReplayed() || res.GetIsError() || up.Ledger.Executions(last) != 2 {
		t.Errorf("what was not synced: %s, %d executions; the guarantees say that it runs again", res.GetContent(), up.Ledger.Executions(last))
	}
}

// cutBefore cuts the append-only file off before a text first appears in it.
func cutBefore(t *testing.T, dir, text string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no append-only file in %s: %v", dir, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(data, []byte(text))
		if at < 0 {
			continue
		}
		if err := os.Truncate(file, int64(at)); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("%q is in none of %v", text, files)
}
