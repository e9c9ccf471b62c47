//go:build e2e

package e2e

import (
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/sidecall/sidecall/e2e/harness"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// wire carries connections to a server, until it is cut.
type wire struct {
	Addr string

	target string
	mu     sync.Mutex
	whole  bool
	conns  []net.Conn
}

func startWire(t *testing.T, target string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Addr: listener.Addr().String(), target: target, whole: true}
	var carried sync.WaitGroup
	carried.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			carried.Go(func() { w.carry(conn) })
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		w.cut()
		carried.Wait()
	})
	return w
}

func (w *wire) carry(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer far.Close()
	w.mu.Lock()
	whole := w.whole
	w.conns = append(w.conns, near, far)
	w.mu.Unlock()
	if !whole {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // that it is cut is the point
			_ = way[0].Close()             // so that the other way ends too
		})
	}
	both.Wait()
}

// cut ends every connection and lets none through.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole = false
	for _, conn := range w.conns {
		_ = conn.Close() // it may have ended by itself
	}
	w.conns = nil
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole = true
}

func TestServeReadinessFollowsTheStore(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	w := startWire(t, harness.Redis(t))
	s := harness.Start(t, `
store: {redis: {addrs: ["`+w.Addr+`"]}}
backends: {up: {http: {base_url: "`+up.URL+`", allow_private: true}}}
tools:
  act: {backend: up, http: {method: POST, path: /act}}
  read: {backend: up, effect: read_only, http: {method: POST, path: /read}}
`)
	is := func(wantCode int, want string) func() bool {
		return func() bool {
			code, body := readyz(t, s)
			return code == wantCode && body.Status == want
		}
	}
	harness.WaitFor(t, "ready", is(http.StatusOK, "ready"))
	w.cut()
	harness.WaitFor(t, "store_down", is(http.StatusServiceUnavailable, "store_down"))
	if code, _ := s.Get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz = %d: a store that is down is no reason to restart the sidecar", code)
	}
	refusedUnsent(t, s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t1", ToolName: "act"}), "STORE_UNAVAILABLE")
	if res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t2", ToolName: "read"}); res.GetIsError() || res.GetRecorded() {
		t.Errorf("a reader without a store: %v, want an unrecorded success", res)
	}
	w.mend()
	harness.WaitFor(t, "ready again", is(http.StatusOK, "ready"))
	if res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t1", ToolName: "act"}); res.GetIsError() || !res.GetRecorded() {
		t.Errorf("with the store back: %v", res)
	}
	if n := up.Requests("/act"); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	lives(t, s)
}
