// Package wire has HTTP servers for tests that decide themselves what goes over
// a connection, request by request and frame by frame: they carry a request out
// and then break the connection, refuse a stream, go away. That is what servers
// of the standard library do not do, and what makes clients send again.
package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Exchange is one request over HTTP/1.1.
type Exchange struct {
	*http.Request
	// Nth counts the requests of this connection, from 1: a later one came over a
	// connection that was reused.
	Nth int
	// Conn is written to for an answer. The request's body is still unread.
	Conn net.Conn
}

// OK answers 200 with a text.
func (x *Exchange) OK(text string) bool {
	resp := http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: x.Request,
		ContentLength: int64(len(text)), Body: io.NopCloser(strings.NewReader(text)),
		Header: http.Header{"Content-Type": {"text/plain"}},
	}
	return resp.Write(x.Conn) == nil
}

// ReadBody reads the request to its end.
func (x *Exchange) ReadBody() bool {
	_, err := io.Copy(io.Discard, x.Body)
	return err == nil
}

// Reset breaks the connection so that the client's kernel sees it at once.
func (x *Exchange) Reset() bool {
	if tcp, ok := x.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it this is a close, which the test would notice
	}
	return false
}

// HTTP1 starts a server on a loopback port and returns its URL. handle answers
// each request, or does not; false closes the connection. It ends with the test.
func HTTP1(tb testing.TB, handle func(x *Exchange) bool) (url string) {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	accept(tb, listener, func(conn net.Conn) { serveRequests(conn, handle) })
	return "http://" + listener.Addr().String()
}

// HTTPS1 is HTTP1 over TLS; roots trust its certificate.
func HTTPS1(tb testing.TB, handle func(x *Exchange) bool) (url string, roots *x509.CertPool) {
	tb.Helper()
	listener, cert := secure(tb, "http/1.1")
	accept(tb, listener, func(conn net.Conn) { serveRequests(conn, handle) })
	roots = x509.NewCertPool()
	roots.AddCert(cert)
	return "https://" + listener.Addr().String(), roots
}

func serveRequests(conn net.Conn, handle func(x *Exchange) bool) {
	in := bufio.NewReader(conn)
	for n := 1; ; n++ {
		req, err := http.ReadRequest(in)
		if err != nil || !handle(&Exchange{Request: req, Nth: n, Conn: conn}) {
			return
		}
	}
}

// secure listens on a loopback port with a certificate of its own.
func secure(tb testing.TB, protocol string) (net.Listener, *x509.Certificate) {
	tb.Helper()
	identity := httptest.NewUnstartedServer(nil)
	identity.StartTLS()
	identity.Close() // only its certificate is wanted
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: identity.TLS.Certificates, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return listener, identity.Certificate()
}

// accept serves connections until the end of the test, which closes them.
func accept(tb testing.TB, listener net.Listener, serve func(net.Conn)) {
	tb.Helper()
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			served.Go(func() {
				serve(conn)
				_ = conn.Close() // the client may have been faster
				mu.Lock()
				delete(open, conn)
				mu.Unlock()
			})
		}
	})
	tb.Cleanup(func() {
		if err := listener.Close(); err != nil {
			tb.Error(err)
		}
		mu.Lock()
		for conn := range open {
			_ = conn.Close() // its server may have been faster
		}
		mu.Unlock()
		served.Wait()
	})
}

// Stream is one request over HTTP/2, arrived whole.
type Stream struct {
	*http2.Framer
	ID uint32
	// Fields are the header fields, the pseudo ones such as :path included.
	Fields map[string]string
	// Nth counts the requests of this connection, from 1.
	Nth int
}

// OK answers 200 without a body.
func (s *Stream) OK() bool {
	return s.WriteHeaders(http2.HeadersFrameParam{
		StreamID: s.ID, BlockFragment: []byte{0x88}, // :status 200
		EndHeaders: true, EndStream: true,
	}) == nil
}

// RST resets the stream.
func (s *Stream) RST(code http2.ErrCode) bool { return s.WriteRSTStream(s.ID, code) == nil }

// GoAway says that streams up to this one's id + offset were or might be
// processed.
func (s *Stream) GoAway(offset int, code http2.ErrCode, debug string) bool {
	return s.WriteGoAway(uint32(max(0, int(s.ID)+offset)), code, []byte(debug)) == nil
}

// HTTP2 is a server of HTTP/2 over TLS.
type HTTP2 struct {
	URL string
	// Roots trust its certificate.
	Roots *x509.CertPool
	cert  *x509.Certificate
}

// CAFile writes the certificate that verifies the server to a file.
func (s *HTTP2) CAFile(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.cert.Raw})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// StartHTTP2 starts a server on a loopback port. handle answers each request,
// or does not; false closes the connection. It ends with the test.
func StartHTTP2(tb testing.TB, handle func(s *Stream) bool) *HTTP2 {
	tb.Helper()
	listener, cert := secure(tb, "h2")
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	accept(tb, listener, func(conn net.Conn) { serveFrames(conn, handle) })
	return &HTTP2{URL: "https://" + listener.Addr().String(), Roots: roots, cert: cert}
}

func serveFrames(conn net.Conn, handle func(s *Stream) bool) {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	f := http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if f.WriteSettings() != nil {
		return
	}
	begun, nth := map[uint32]*Stream{}, 0
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
			nth++
			begun[frame.StreamID] = &Stream{Framer: f, ID: frame.StreamID, Fields: fields(frame), Nth: nth}
			ended = frame.StreamEnded()
		case *http2.DataFrame:
			ended = frame.StreamEnded()
		}
		if !ended {
			continue
		}
		if s := begun[frame.Header().StreamID]; s == nil || !handle(s) {
			return
		}
	}
}

func fields(frame *http2.MetaHeadersFrame) map[string]string {
	out := make(map[string]string, len(frame.Fields))
	for _, f := range frame.Fields {
		out[f.Name] = f.Value
	}
	return out
}
