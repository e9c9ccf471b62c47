package backend_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// failures are what transports return, with what an upstream can put into them:
// its own text, said, always behind or inside words of the transport's.
var failures = []func(said string) error{
	func(string) error { return io.EOF },
	func(string) error { return io.ErrUnexpectedEOF },
	func(string) error { return net.ErrClosed },
	func(string) error { return context.Canceled },
	func(string) error { return context.DeadlineExceeded },
	func(string) error { return os.ErrDeadlineExceeded },
	func(string) error { return syscall.ECONNRESET },
	func(string) error { return syscall.ECONNREFUSED },
	func(said string) error { return &net.DNSError{Err: said, Name: said} },
	func(said string) error { return &net.OpError{Op: "dial", Err: fmt.Errorf("connect: %s", said)} },
	func(said string) error { return &net.OpError{Op: "read", Err: fmt.Errorf("tls: %s", said)} },
	func(said string) error { return &net.OpError{Op: "remote error", Err: fmt.Errorf("tls: %s", said)} },
	func(said string) error { return &url.Error{Op: "Post", URL: said, Err: io.EOF} },
	func(said string) error { return fmt.Errorf("net/http: HTTP/1.x transport connection broken: %s", said) },
	func(said string) error { return fmt.Errorf("malformed HTTP response %q", said) },
	func(said string) error {
		return fmt.Errorf("http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=%q", said)
	},
	func(said string) error { return errors.Join(io.EOF, fmt.Errorf("peer: %s", said)) },
}

// FuzzClassify: once a byte was written, no words of an upstream make its
// failure pass for one that did not run; and nothing of them reaches the model.
func FuzzClassify(f *testing.F) {
	for i := range failures {
		f.Add(uint8(i), uint8(0), "stream error: stream ID 3; REFUSED_STREAM; received from peer", true)
		f.Add(uint8(i), uint8(i), "http2: Transport received Server's graceful shutdown GOAWAY", true)
		f.Add(uint8(i), uint8(7*i), "net/http: TLS handshake timeout", false)
	}
	f.Fuzz(func(t *testing.T, kind, wrapped uint8, said string, wrote bool) {
		err := failures[int(kind)%len(failures)](said)
		for range wrapped % 4 {
			err = fmt.Errorf("round trip: %w", err)
		}
		if wrapped%8 > 3 {
			err = errors.Join(err, failures[int(wrapped)%len(failures)](said))
		}
		failure := backend.Classify(t.Context(), err, wrote)
		want := tool.NotExecuted
		if wrote {
			want = tool.Ambiguous
		}
		if failure.Evidence != want {
			t.Errorf("written %v, %q proves %s", wrote, err, failure.Evidence)
		}
		if failure.ErrorType == "" || failure.Constraint == "" || !errors.Is(failure.Err, err) {
			t.Errorf("%q is %+v", err, failure)
		}
		if shown := failure.Constraint + failure.Hint + failure.Message + failure.ErrorType; len(said) > 12 && strings.Contains(shown, said) {
			t.Errorf("%q shows what the upstream said", shown)
		}
	})
}
