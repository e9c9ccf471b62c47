package httptool_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"github.com/sidecall/sidecall/internal/backend/httptool"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/wire"
)

// frameServer answers streams of /warm and hands every other one, once the
// request is complete, to misbehave.
type frameServer struct {
	*wire.HTTP2
	streams atomic.Int64 // requests that were not for /warm
}

func startFrameServer(t *testing.T, misbehave func(*wire.Stream) bool) *frameServer {
	t.Helper()
	s := new(frameServer)
	s.HTTP2 = wire.StartHTTP2(t, func(x *wire.Stream) bool {
		if x.Fields[":path"] == "/warm" {
			return x.OK()
		}
		s.streams.Add(1)
		return misbehave(x)
	})
	return s
}

func rst(code http2.ErrCode) func(*wire.Stream) bool {
	return func(s *wire.Stream) bool { return s.RST(code) }
}

// goAway says that streams up to stream+offset were or might be processed, in
// words that pass for others.
func goAway(offset int, code http2.ErrCode, stay bool) func(*wire.Stream) bool {
	return func(s *wire.Stream) bool {
		return s.GoAway(offset, code, "stream error: stream ID 1; REFUSED_STREAM; received from peer") && stay
	}
}

func TestHTTP2ResetsExecuteOnceAndProveWhatTheyProve(t *testing.T) {
	type failing struct {
		misbehave func(*wire.Stream) bool
		evidence  tool.Evidence
		errorType string
	}
	cases := map[string]failing{
		"REFUSED_STREAM":                      {rst(http2.ErrCodeRefusedStream), tool.NotExecuted, "http2_refused_stream"},
		"GOAWAY below the stream":             {goAway(-1, http2.ErrCodeNo, true), tool.NotExecuted, "http2_goaway"},
		"GOAWAY below the stream, with error": {goAway(-1, http2.ErrCodeEnhanceYourCalm, true), tool.NotExecuted, "http2_goaway"},
		"GOAWAY at the stream":                {goAway(0, http2.ErrCodeNo, false), tool.Ambiguous, "http2_goaway"},
		"GOAWAY at the stream, with error":    {goAway(0, http2.ErrCodeInternal, false), tool.Ambiguous, "http2_goaway"},
		"GOAWAY above the stream":             {goAway(100, http2.ErrCodeNo, false), tool.Ambiguous, "http2_goaway"},
		"a closed connection":                 {func(*wire.Stream) bool { return false }, tool.Ambiguous, ""},
	}
	for code := http2.ErrCodeNo; code <= http2.ErrCodeHTTP11Required; code++ {
		if code != http2.ErrCodeRefusedStream {
			cases["RST_STREAM "+code.String()] = failing{rst(code), tool.Ambiguous, "http2_stream_reset"}
		}
	}
	for name, c := range cases {
		for _, warm := range []bool{false, true} {
			for _, request := range []string{"POST with a key", "POST without a body, with a key", "DELETE", "GET that reads"} {
				made := requests[request]
				t.Run(name+"/"+request+map[bool]string{true: ", reused"}[warm], func(t *testing.T) {
					s := startFrameServer(t, c.misbehave)
					b := open(t, httptool.Config{BaseURL: s.URL, AllowPrivate: true, TLS: &tls.Config{RootCAs: s.Roots, MinVersion: tls.VersionTLS12}})
					if warm {
						_, failure := call{spec: httptool.Spec{Path: "/warm"}, effect: tool.ReadOnly}.on(t, b)
						noFailure(t, failure)
					}
					_, failure := made.on(t, b)
					proves(t, failure, tool.CodeDependencyUnavailable, c.evidence)
					if c.errorType != "" && failure.ErrorType != c.errorType {
						t.Errorf("error type = %s, want %s: %v", failure.ErrorType, c.errorType, failure.Err)
					}
					if n := s.streams.Load(); n != 1 {
						t.Errorf("%d requests, want 1", n)
					}
				})
			}
		}
	}
}

func TestHTTP2IsSpokenUnlessSwitchedOff(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for disable, want := range map[bool]string{false: "HTTP/2.0", true: "HTTP/1.1"} {
		b := open(t, httptool.Config{
			BaseURL: server.URL, AllowPrivate: true, DisableHTTP2: disable,
			TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		})
		reply, failure := call{spec: httptool.Spec{Path: "/x"}}.on(t, b)
		noFailure(t, failure)
		if got := string(reply.Text); got != want {
			t.Errorf("spoke %s, want %s", got, want)
		}
	}
}

func TestAnUnknownCertificateIsNotTrusted(t *testing.T) {
	s := startFrameServer(t, rst(http2.ErrCodeNo))
	_, failure := call{spec: httptool.Spec{Method: "POST", Path: "/do"}}.on(t, at(t, s.URL))
	proves(t, failure, tool.CodeDependencyUnavailable, tool.NotExecuted)
	if failure.ErrorType != "tls" {
		t.Errorf("error type = %s, want tls", failure.ErrorType)
	}
}
