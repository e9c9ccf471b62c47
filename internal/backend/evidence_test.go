package backend_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// dial is an error as net.Dialer returns it.
func dial(err error) error {
	return &url.Error{Op: "Post", URL: "http://10.0.0.7/x?token=secret", Err: &net.OpError{Op: "dial", Net: "tcp", Err: err}}
}

func TestWhatANetworkFailureProves(t *testing.T) {
	refused := os.NewSyscallError("connect", syscall.ECONNREFUSED)
	reset := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for name, c := range map[string]struct {
		err       error
		code      tool.Code
		errorType string
		// unprocessed: the peer says so, whatever was written.
		unprocessed bool
	}{
		"DNS":                {dial(&net.DNSError{Err: "no such host", IsNotFound: true}), tool.CodeDependencyUnavailable, "dns", false},
		"refused":            {dial(refused), tool.CodeDependencyUnavailable, "connection_refused", false},
		"unreachable":        {dial(syscall.EHOSTUNREACH), tool.CodeDependencyUnavailable, "connect", false},
		"connect timeout":    {dial(os.ErrDeadlineExceeded), tool.CodeDependencyUnavailable, "connect_timeout", false},
		"address":            {dial(&backend.AddressError{}), tool.CodeUnrecoverable, "address_refused", false},
		"unknown authority":  {&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, tool.CodeDependencyUnavailable, "tls", false},
		"not TLS":            {tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, tool.CodeDependencyUnavailable, "tls", false},
		"TLS alert":          {&net.OpError{Op: "remote error", Err: tls.AlertError(40)}, tool.CodeDependencyUnavailable, "tls", false},
		"reset":              {reset, tool.CodeDependencyUnavailable, "connection_reset", false},
		"broken pipe":        {fmt.Errorf("write error: %w", syscall.EPIPE), tool.CodeDependencyUnavailable, "connection_reset", false},
		"end of file":        {io.EOF, tool.CodeDependencyUnavailable, "connection_closed", false},
		"cut short":          {io.ErrUnexpectedEOF, tool.CodeDependencyUnavailable, "connection_closed", false},
		"closed idle":        {errors.New("http: server closed idle connection"), tool.CodeDependencyUnavailable, "connection_closed", false},
		"anything else":      {errors.New("flux capacitor"), tool.CodeDependencyUnavailable, "network", false},
		"refused stream":     {errors.New("stream error: stream ID 3; REFUSED_STREAM; received from peer"), tool.CodeDependencyUnavailable, "http2_refused_stream", true},
		"graceful goaway":    {errors.New("http2: Transport received Server's graceful shutdown GOAWAY"), tool.CodeDependencyUnavailable, "http2_goaway", true},
		"no conn, not begun": {errors.New("http2: client conn not usable"), tool.CodeDependencyUnavailable, "http2_goaway", true},
		"cancelled stream":   {errors.New("stream error: stream ID 3; CANCEL; received from peer"), tool.CodeDependencyUnavailable, "http2_stream_reset", false},
		"our own refusal":    {errors.New("stream error: stream ID 3; REFUSED_STREAM"), tool.CodeDependencyUnavailable, "http2_stream_reset", false},
		"goaway after ours":  {errors.New(`http2: server sent GOAWAY and closed the connection; LastStreamID=3, ErrCode=NO_ERROR, debug="stream error: stream ID 3; REFUSED_STREAM; received from peer"`), tool.CodeDependencyUnavailable, "http2_goaway", false},
		"a peer's own words": {errors.New(`peer says: http2: Transport received Server's graceful shutdown GOAWAY`), tool.CodeDependencyUnavailable, "network", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, wrote := range []bool{false, true} {
				failure := backend.Classify(t.Context(), c.err, wrote)
				want := tool.NotExecuted
				if wrote && !c.unprocessed {
					want = tool.Ambiguous
				}
				if failure.Evidence != want {
					t.Errorf("wrote %v proves %s, want %s", wrote, failure.Evidence, want)
				}
				if failure.Code != c.code || failure.ErrorType != c.errorType {
					t.Errorf("%s %s, want %s %s", failure.Code, failure.ErrorType, c.code, c.errorType)
				}
				if failure.Unreached != (!wrote && !c.unprocessed && c.code.Class() == tool.Transient) {
					t.Errorf("wrote %v: unreached is %v", wrote, failure.Unreached)
				}
				if failure.CallerFault || failure.Constraint == "" || !errors.Is(failure.Err, c.err) {
					t.Errorf("failure = %+v", failure)
				}
				if text := failure.Constraint + failure.Message + failure.Hint; strings.Contains(text, "10.0.0.7") || strings.Contains(text, "secret") {
					t.Errorf("%q shows the upstream's address", text)
				}
			}
		})
	}
	if backend.Classify(t.Context(), nil, true) != nil {
		t.Error("no error is a failure")
	}
}

func TestAContextThatEndedExplainsTheFailure(t *testing.T) {
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrNoProgress)
	expired, stop := context.WithTimeoutCause(t.Context(), -1, io.ErrNoProgress)
	defer stop()
	closed := &net.OpError{Op: "read", Err: net.ErrClosed}
	for name, c := range map[string]struct {
		ctx   context.Context
		err   error
		wrote bool
		code  tool.Code
		proof tool.Evidence
		fault bool
	}{
		"cancelled before":              {cancelled, io.ErrNoProgress, false, tool.CodeCancelled, tool.NotExecuted, true},
		"cancelled after":               {cancelled, closed, true, tool.CodeCancelled, tool.Ambiguous, true},
		"expired before":                {expired, io.ErrNoProgress, false, tool.CodeDependencyUnavailable, tool.NotExecuted, false},
		"expired after":                 {expired, closed, true, tool.CodeTimeout, tool.Ambiguous, false},
		"no context, cancelled":         {nil, context.Canceled, true, tool.CodeCancelled, tool.Ambiguous, true},
		"no context, expired":           {nil, fmt.Errorf("x: %w", context.DeadlineExceeded), true, tool.CodeTimeout, tool.Ambiguous, false},
		"a transport's own timeout":     {t.Context(), os.ErrDeadlineExceeded, true, tool.CodeTimeout, tool.Ambiguous, false},
		"a refused stream all the same": {expired, errors.New("stream error: stream ID 3; REFUSED_STREAM; received from peer"), true, tool.CodeDependencyUnavailable, tool.NotExecuted, false},
	} {
		failure := backend.Classify(c.ctx, c.err, c.wrote)
		if failure.Code != c.code || failure.Evidence != c.proof || failure.CallerFault != c.fault {
			t.Errorf("%s: %s %s caller %v, want %s %s %v", name, failure.Code, failure.Evidence, failure.CallerFault, c.code, c.proof, c.fault)
		}
	}
}

func TestAddresses(t *testing.T) {
	const open, private, never = 0, 1, 2
	for text, want := range map[string]int{
		"93.184.216.34": open, "8.8.8.8": open, "2606:4700::1111": open, "172.32.0.1": open, "100.128.0.1": open,
		"127.0.0.1": private, "127.8.8.8": private, "10.1.2.3": private, "172.16.0.1": private, "172.31.255.255": private,
		"192.168.1.1": private, "100.64.0.1": private, "198.18.0.1": private, "0.1.2.3": private, "240.0.0.1": private,
		"::1": private, "fd12::1": private, "fc00::1": private, "fec0::1": private, "2001:db8::1": private,
		"169.254.169.254": never, "169.254.0.1": never, "100.100.100.200": never, "168.63.129.16": never, "192.0.0.192": never,
		"0.0.0.0": never, "::": never, "255.255.255.255": never, "224.0.0.1": never, "ff02::1": never,
		"fe80::1": never, "fe80::1%eth0": never, "fd00:ec2::254": never, "fd00:ec2::254%1": never, "fd20:ce::254": never,
		"fd00:ec2::23": never, "fd00:ec2::253": never, "fd00:c1::a9fe:a9fe": never, "fd00:42::42": never, "fd00:43::42": private,
		// IPv4 in IPv6 dress.
		"::ffff:127.0.0.1": private, "::ffff:169.254.169.254": never, "::ffff:8.8.8.8": open,
		"::169.254.169.254": never, "::10.0.0.1": private, "::ffff:0:169.254.169.254": never,
		"64:ff9b::169.254.169.254": never, "64:ff9b::10.0.0.1": private, "64:ff9b::8.8.8.8": open,
		"64:ff9b:1::169.254.169.254": never, "64:ff9b:1::8.8.8.8": private,
		"64:ff9b:1:a9fe:a9:fe00::": never, "64:ff9b:1:a9:fe:a9fe::": never, "64:ff9b:1:7:a9:fea9:fe00::": never,
		"2002:a9fe:a9fe::1": never, "2002:7f00:1::": private, "2002:808:808::1": open,
		"2001:0:1:2:3:4:5601:5601": never, "2001:0:1:2:3:4:80ff:fffe": private, // Teredo, inverted
		"2606:4700::5efe:a9fe:a9fe": never, "2606:4700::200:5efe:7f00:1": private, // ISATAP
	} {
		addr := netip.MustParseAddr(text)
		for _, allow := range []bool{false, true} {
			err := backend.CheckAddress(addr, allow)
			refused := want == never || want == private && !allow
			var address *backend.AddressError
			if refused != errors.As(err, &address) {
				t.Errorf("%s, private allowed %v: %v", text, allow, err)
			} else if refused && address.Private != (want == private) {
				t.Errorf("%s: private %v", text, address.Private)
			}
		}
	}
}

func TestTheGuardChecksWhatIsConnectedTo(t *testing.T) {
	guard := backend.GuardAddresses(false)
	if err := guard("tcp4", "93.184.216.34:443", nil); err != nil {
		t.Error(err)
	}
	for _, address := range []string{"127.0.0.1:80", "[::ffff:10.0.0.1]:80", "[fe80::1%lo]:80", "somewhere:80", "1.2.3.4"} {
		if err := guard("tcp", address, nil); err == nil {
			t.Errorf("%s is let through", address)
		}
	}
}
