package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// The exit code says whether calls are taken, the lines say why not.
func TestReady(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		code   int
		out    string
		err    string
	}{
		"ready": {200, `{"status":"ready","tools":3}`, 0, "ready: 3 tools\n", ""},
		"degraded": {
			200, `{"status":"degraded","tools":3,"backends_down":{"b":"refused","a":"gone"},"collisions":["x is taken"],"journal":{"detail":"1 settlement waits"}}`,
			0, "degraded: 3 tools\nbackend a is down: gone\nbackend b is down: refused\nname collision: x is taken\njournal: 1 settlement waits\n", "",
		},
		"starting": {
			503, `{"status":"starting","tools":3,"backends_down":{"b":"refused","c":"gone"},"undiscovered":{"a":"it is being connected","b":"refused"}}`,
			exitFailed, "starting: 3 tools\nbackend a is not discovered yet: it is being connected\nbackend b is not discovered yet: refused\nbackend c is down: gone\n", "",
		},
		"store down":    {503, `{"status":"store_down","store":"redis does not answer","tools":1}`, exitFailed, "store_down: 1 tool\nstore: redis does not answer\n", ""},
		"draining":      {503, `{"status":"draining","tools":1}`, exitFailed, "draining: 1 tool\n", ""},
		"no sidecar":    {200, `<html>`, exitFailed, "", "no sidecar answers"},
		"another JSON":  {200, `{"hello":1}`, exitFailed, "", "no sidecar"},
		"nothing at it": {404, "404 page not found", exitFailed, "", "no sidecar answers"},
	} {
		t.Run(name, func(t *testing.T) {
			admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/readyz" {
					t.Errorf("asked for %s", r.URL.Path)
				}
				w.WriteHeader(c.status)
				if _, err := io.WriteString(w, c.body); err != nil {
					t.Error(err)
				}
			}))
			defer admin.Close()
			address := strings.TrimPrefix(admin.URL, "http://")
			config := filepath.Join(t.TempDir(), "sidecall.yaml")
			if err := os.WriteFile(config, []byte("admin: "+address+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"--admin", address}, {"--config", config}} {
				got := command(t, append([]string{"ready"}, args...)...)
				if got.code != c.code || got.out != c.out || c.err != "" && (got.err == nil || !strings.Contains(got.err.Error(), c.err)) {
					t.Errorf("%v: %+v", args, got)
				}
			}
		})
	}
}

// Who waits for a sidecar is told when it is ready, not that it is not yet.
func TestReadyIsWaitedFor(t *testing.T) {
	var asked atomic.Int32
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		body := `{"status":"ready","tools":3}`
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			body = `{"status":"starting","tools":1}`
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Error(err)
		}
	}))
	defer admin.Close()
	address := strings.TrimPrefix(admin.URL, "http://")
	if got := command(t, "ready", "--admin", address); got.code != exitFailed || got.out != "starting: 1 tool\n" {
		t.Errorf("without --wait: %+v", got)
	}
	if got := command(t, "ready", "--admin", address, "--wait", "1h"); got.code != 0 || got.out != "ready: 3 tools\n" || asked.Load() != 3 {
		t.Errorf("with it: %+v after %d questions", got, asked.Load())
	}
	if got := command(t, "ready", "--admin", address, "--wait", "-1s"); got.code != exitUsage {
		t.Errorf("a negative wait: %+v", got)
	}
}

func TestReadyOfNobody(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	if got := command(t, "ready", "--admin", strings.TrimPrefix(gone.URL, "http://")); got.code != exitFailed || !strings.Contains(got.err.Error(), "no sidecar answers at") || !strings.Contains(got.err.Error(), "or name its admin address with --admin") {
		t.Errorf("nobody is there: %+v", got)
	}
	off := filepath.Join(t.TempDir(), "sidecall.yaml")
	if err := os.WriteFile(off, []byte("admin: off\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--config", off}, {"--config", off + ".not"}, {"--config", off, "--admin", "127.0.0.1:1"}, {"now"}, {"--admin", "localhost"}, {"--admin", "http://127.0.0.1:1"}, {"--admin", ":"}} {
		if got := command(t, append([]string{"ready"}, args...)...); got.code != exitUsage {
			t.Errorf("%v: %+v, want exit code %d", args, got, exitUsage)
		}
	}
}

// A file that was refused keeps nobody from asking the sidecar that serves the one before
// it; and a sidecar that is not ready is alive.
func TestReadyOfARefusedConfigAndLiveness(t *testing.T) {
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			_, _ = io.WriteString(w, `{"status":"ok"}`)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"status":"store_down","tools":1,"config_refused":"s.yaml:2:1: toolz: unknown key","config_waiting":"backend a"}`)
	}))
	defer admin.Close()
	address := strings.TrimPrefix(admin.URL, "http://")
	config := filepath.Join(t.TempDir(), "sidecall.yaml")
	if err := os.WriteFile(config, []byte("admin: "+address+"\ntoolz: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const refused = "store_down: 1 tool\nconfig refused, the one before it stays in force: s.yaml:2:1: toolz: unknown key\nconfig waiting: backend a\n"
	if got := command(t, "ready", "--config", config); got.code != exitFailed || got.out != refused {
		t.Errorf("not ready: %+v", got)
	}
	if got := command(t, "ready", "--live", "--config", config); got.code != 0 || got.out != "alive\n" {
		t.Errorf("alive: %+v", got)
	}
	admin.Config.Handler = http.NotFoundHandler()
	if got := command(t, "ready", "--live", "--admin", address); got.code != exitFailed {
		t.Errorf("another server: %+v", got)
	}
	if err := os.WriteFile(config, []byte("admin: everywhere\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := command(t, "ready", "--config", config); got.code != exitUsage {
		t.Errorf("an address that is none: %+v", got)
	}
}
