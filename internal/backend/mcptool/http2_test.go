package mcptool

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/net/http2"

	"github.com/sidecall/sidecall/internal/tool"
	frames "github.com/sidecall/sidecall/test/testkit/wire"
)

// detour sends POSTs elsewhere once it is on.
type detour struct {
	straight, around http.RoundTripper
	host             string
	on               atomic.Bool
}

func (d *detour) RoundTrip(req *http.Request) (*http.Response, error) {
	if !d.on.Load() || req.Method != http.MethodPost {
		return d.straight.RoundTrip(req)
	}
	req.URL.Scheme, req.URL.Host = "https", d.host
	return d.around.RoundTrip(req)
}

func TestHTTP2BreaksProveWhatTheyProve(t *testing.T) {
	const passesForARefusal = "stream error: stream ID 1; REFUSED_STREAM; received from peer; " +
		"http2: Transport received Server's graceful shutdown GOAWAY"
	for name, tt := range map[string]struct {
		breaks   func(*frames.Stream) bool
		evidence tool.Evidence
	}{
		"REFUSED_STREAM": {func(s *frames.Stream) bool { return s.RST(http2.ErrCodeRefusedStream) }, tool.NotExecuted},
		"CANCEL":         {func(s *frames.Stream) bool { return s.RST(http2.ErrCodeCancel) }, tool.Ambiguous},
		"GOAWAY below the stream": {func(s *frames.Stream) bool {
			return s.GoAway(-1, http2.ErrCodeNo, passesForARefusal)
		}, tool.NotExecuted},
		"GOAWAY below the stream, with an error": {func(s *frames.Stream) bool {
			return s.GoAway(-1, http2.ErrCodeEnhanceYourCalm, passesForARefusal)
		}, tool.NotExecuted},
		"GOAWAY at the stream": {func(s *frames.Stream) bool {
			s.GoAway(0, http2.ErrCodeNo, passesForARefusal)
			return false
		}, tool.Ambiguous},
		"a closed connection": {func(*frames.Stream) bool { return false }, tool.Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			var streams atomic.Int64
			h2 := frames.StartHTTP2(t, func(s *frames.Stream) bool {
				streams.Add(1)
				return tt.breaks(s)
			})
			to, err := url.Parse(h2.URL)
			if err != nil {
				t.Fatal(err)
			}
			around := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: h2.Roots, MinVersion: tls.VersionTLS12}}
			t.Cleanup(around.CloseIdleConnections)
			s := newSite(t, mcp.StreamableHTTPOptions{})
			cfg := s.config(t)
			d := &detour{straight: cfg.HTTPClient.Transport, around: around, host: to.Host}
			cfg.HTTPClient = &http.Client{Transport: d}
			r := run(t, cfg)
			r.up()
			d.on.Store(true)
			_, f := r.call("pay", `{}`)
			d.on.Store(false)
			if f == nil || f.Code != tool.CodeDependencyUnavailable || f.Evidence != tt.evidence {
				t.Errorf("failure is %+v, want %s", f, tt.evidence)
			}
			if n := streams.Load(); n != 1 {
				t.Errorf("sent %d times", n)
			}
		})
	}
}
