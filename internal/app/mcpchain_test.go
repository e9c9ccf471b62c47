package app

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A sidecar before another: the front of the inner one honours the key that the outer one's backend
// sends, so that a call whose answer was lost between them is sent again, and paid once.
func TestASidecarBeforeAnotherSendsACallAgain(t *testing.T) {
	inEachRevision(t, func(t *testing.T, revision string) {
		inner := newShop(t)
		target, err := url.Parse(inner.url)
		if err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int64
		proxy := httputil.NewSingleHostReverseProxy(target)
		between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if bytes.Contains(body, []byte("tools/call")) && asked.Add(1) == 1 {
				proxy.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler) // it is paid, and the answer is lost
			}
			proxy.ServeHTTP(w, r)
		}))
		t.Cleanup(between.Close)
		t.Cleanup(between.CloseClientConnections)
		outer, _ := before(t, fmt.Sprintf("backends: {inner: {trust: trusted, prefix: inner_, mcp: {url: %q, allow_private: true, protocol: %q}, effects: {pay: keyed}}}", between.URL+"/mcp", revision))
		params := pay("toolu_1", 5)
		params.Name = "inner_pay"
		for i := range 2 {
			res, err := outer.connect(t, revision, &mcp.ClientOptions{}).CallTool(t.Context(), params)
			if err != nil || res.IsError || text(t, res) != `{"payment":1}` || (res.Meta["dev.sidecall/replayed"] == true) != (i > 0) {
				t.Errorf("answer %d: %v, %v", i, res, err)
			}
		}
		if paid, sent := inner.paid.Load(), asked.Load(); paid != 1 || sent != 2 {
			t.Errorf("%d payments, sent %d times", paid, sent)
		}
	})
}
