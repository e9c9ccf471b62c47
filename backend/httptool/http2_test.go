package httptool_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/sidecall/sidecall/backend/httptool"
	"github.com/sidecall/sidecall/tool"
)

// frameServer speaks HTTP/2 frame by frame. It answers streams of /warm and
// hands every other one, once the request is complete, to misbehave.
type frameServer struct {
	url     string
	roots   *x509.CertPool
	streams atomic.Int64 // requests that were not for /warm
	// misbehave answers a stream; false closes the connection.
	misbehave func(f *http2.Framer, stream uint32) bool
}

func startFrameServer(t *testing.T, misbehave func(*http2.Framer, uint32) bool) *frameServer {
	t.Helper()
	identity := httptest.NewUnstartedServer(nil)
	identity.StartTLS()
	identity.Close() // only its certificate is wanted
	roots := x509.NewCertPool()
	roots.AddCert(identity.Certificate())
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: identity.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &frameServer{url: "https://" + listener.Addr().String(), roots: roots, misbehave: misbehave}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			served.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		served.Wait()
	})
	return s
}

func (s *frameServer) serve(conn net.Conn) {
	defer conn.Close()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	f := http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if f.WriteSettings() != nil {
		return
	}
	paths := map[uint32]string{}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		ended := false
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() && f.WriteSettingsAck() != nil {
				return
			}
		case *http2.MetaHeadersFrame:
			paths[frame.StreamID] = frame.PseudoValue("path")
			ended = frame.StreamEnded()
		case *http2.DataFrame:
			ended = frame.StreamEnded()
		}
		if ended && !s.answer(f, frame.Header().StreamID, paths) {
			return
		}
	}
}

func (s *frameServer) answer(f *http2.Framer, stream uint32, paths map[uint32]string) bool {
	if paths[stream] == "/warm" {
		return f.WriteHeaders(http2.HeadersFrameParam{
			StreamID: stream, BlockFragment: []byte{0x88}, // :status 200
			EndHeaders: true, EndStream: true,
		}) == nil
	}
	s.streams.Add(1)
	return s.misbehave(f, stream)
}

func rst(code http2.ErrCode) func(*http2.Framer, uint32) bool {
	return func(f *http2.Framer, stream uint32) bool { return f.WriteRSTStream(stream, code) == nil }
}

// goAway says that streams up to stream+offset were or might be processed.
func goAway(offset int, code http2.ErrCode, stay bool) func(*http2.Framer, uint32) bool {
	return func(f *http2.Framer, stream uint32) bool {
		last := max(0, int(stream)+offset)
		return f.WriteGoAway(uint32(last), code, []byte("stream error: stream ID 1; REFUSED_STREAM; received from peer")) == nil && stay
	}
}

func TestHTTP2ResetsExecuteOnceAndProveWhatTheyProve(t *testing.T) {
	type failing struct {
		misbehave func(*http2.Framer, uint32) bool
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
		"a closed connection":                 {func(*http2.Framer, uint32) bool { return false }, tool.Ambiguous, ""},
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
					b := open(t, httptool.Config{BaseURL: s.url, AllowPrivate: true, TLS: &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12}})
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
	_, failure := call{spec: httptool.Spec{Method: "POST", Path: "/do"}}.on(t, at(t, s.url))
	proves(t, failure, tool.CodeDependencyUnavailable, tool.NotExecuted)
	if failure.ErrorType != "tls" {
		t.Errorf("error type = %s, want tls", failure.ErrorType)
	}
}
