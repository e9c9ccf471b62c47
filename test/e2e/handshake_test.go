//go:build e2e

package e2e

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// The TLS handshake of a call takes longer than its lease, the store is cut off
// from its owner meanwhile, an operator settles the call as not run, and it is
// sent again and runs. When the handshake is done at last, nothing more is sent.
func TestALeaseThatRunsOutDuringTheHandshake(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2 %t", http2), func(t *testing.T) {
			t.Parallel()
			up := upstream.New(upstream.NewLedger())
			server := httptest.NewUnstartedServer(up)
			server.EnableHTTP2 = http2
			requests := make(chan string, 100)
			server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests <- r.URL.Path
				up.ServeHTTP(w, r)
			})
			server.StartTLS()
			t.Cleanup(func() {
				up.Close()
				server.Close()
			})
			ca := filepath.Join(t.TempDir(), "ca.pem")
			text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			if err := os.WriteFile(ca, text, 0o600); err != nil {
				t.Fatal(err)
			}
			redis := harness.Redis(t)
			toStore := faultproxy.Start(t, redis)
			toUpstream := faultproxy.Start(t, strings.TrimPrefix(server.URL, "https://"))
			config := func(store, up string) string {
				return fmt.Sprintf(`store: {redis: {addrs: [%q]}}
lease: 2s
backends:
  up: {http: {base_url: "https://%s", allow_private: true, http2: %t, tls: {ca: %q}}}
tools:
  act: {backend: up, description: Does it., http: {method: POST, path: /act}}
`, store, up, http2, ca)
			}
			owner := harness.Start(t, config(toStore.Addr(), toUpstream.Addr()))
			other := harness.Start(t, config(redis, strings.TrimPrefix(server.URL, "https://")))

			toUpstream.Freeze()
			late := make(chan *sidecallv1.ExecuteToolResponse, 1)
			go func() {
				res, err := execute(t, owner, callOf("order-1"))
				if err != nil {
					t.Error(err)
				}
				late <- res
			}()
			harness.WaitFor(t, "the handshake", func() bool { return len(toUpstream.Conns()) == 1 })
			toStore.Freeze()
			harness.WaitFor(t, "the lease to end", func() bool { return len(unknownIDs(t, other)) == 1 })
			resolve(t, other, 0, "--id", "order-1", "--as", "not_run", "--reason", "it is not in the ledger", "--yes")
			if res := other.Call(callOf("order-1")); res.GetIsError() || res.GetReplayed() {
				t.Fatalf("sent again it got %v", res)
			}
			toUpstream.Thaw()
			toStore.Thaw()
			if res := <-late; res.GetError().GetCode() != "STORE_UNAVAILABLE" || res.GetRecovery().GetAttempts() != 0 {
				t.Errorf("the owner's caller got %v", res)
			}
			if n := len(requests); n != 1 {
				t.Errorf("%d requests reached the upstream, want 1", n)
			}
		})
	}
}
