package backend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"syscall"

	"github.com/sidecall/sidecall/internal/tool"
)

// Values of tool.Failure.ErrorType for failures of the network. They are the
// error.type of telemetry, so there are few of them and they never carry data.
const (
	ErrorTypeCancelled         = "cancelled"
	ErrorTypeTimeout           = "timeout"
	ErrorTypeConnectTimeout    = "connect_timeout"
	ErrorTypeDNS               = "dns"
	ErrorTypeConnectionRefused = "connection_refused"
	ErrorTypeConnect           = "connect"
	ErrorTypeTLS               = "tls"
	ErrorTypeConnectionReset   = "connection_reset"
	ErrorTypeConnectionClosed  = "connection_closed"
	ErrorTypeRefusedStream     = "http2_refused_stream"
	ErrorTypeGoAway            = "http2_goaway"
	ErrorTypeStreamReset       = "http2_stream_reset"
	ErrorTypeAddressRefused    = "address_refused"
	ErrorTypeUnfit             = "connection_unfit"
	ErrorTypeNetwork           = "network"
)

// Classify says what a failed exchange over the network proves about the call.
// err is what the transport returned, ctx what it ran under. wrote is false
// only when the caller knows that not one byte of the request left; when in
// doubt it is true.
//
// The rules, each with its source:
//
//   - Not a byte written: it did not run. That covers DNS, refused
//     connections, connect timeouts and TLS handshakes (Envoy's
//     connect-failure, gRPC proposal A6).
//   - HTTP/2 REFUSED_STREAM, and GOAWAY with our stream above the last id: it
//     did not run, although bytes were written (RFC 9113 section 8.7).
//   - Anything else after the first byte may have run (RFC 9110 section 9.2.2).
//
// The messages are written for a model: they name no address and carry nothing
// of err, which goes to the log.
func Classify(ctx context.Context, err error, wrote bool) *tool.Failure {
	if err == nil {
		return nil
	}
	c := causeOf(ctx, err, wrote)
	failure := &tool.Failure{
		Code:       c.code,
		Evidence:   tool.Ambiguous,
		Constraint: c.constraint,
		Hint:       c.hint,
		ErrorType:  c.errorType,
		// The caller left: that says nothing about the backend.
		CallerFault: c.code == tool.CodeCancelled,
		Unreached:   !wrote && !c.unprocessed && c.code.Class() == tool.Transient && c.code != tool.CodeCancelled,
		Err:         err,
	}
	if !wrote || c.unprocessed {
		failure.Evidence = tool.NotExecuted
	}
	return failure
}

// ContextEnded is the failure of a call whose context has ended; late is what is said
// where its time was over.
func ContextEnded(ctx context.Context, evidence tool.Evidence, late string) *tool.Failure {
	f := &tool.Failure{Code: tool.CodeTimeout, Evidence: evidence, ErrorType: ErrorTypeTimeout, Constraint: late, Err: context.Cause(ctx)}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f.Code, f.ErrorType, f.Constraint, f.CallerFault = tool.CodeCancelled, ErrorTypeCancelled, "the call was cancelled", true
	}
	return f
}

// NoneFit is the failure of a request that was not sent, since upstream had ended
// every connection that it found, or sent on it what nobody had asked for.
func NoneFit() *tool.Failure {
	return &tool.Failure{
		Code: tool.CodeDependencyUnavailable, Evidence: tool.NotExecuted, ErrorType: ErrorTypeUnfit, Unreached: true,
		Constraint: "on every open connection to the upstream there was an answer that nobody had asked for, or its end",
	}
}

// Unprocessed reports whether err is the word of an HTTP/2 peer that it did not
// process the request, whatever was written of it (RFC 9113 section 8.7).
func Unprocessed(err error) bool {
	_, ok := unprocessedCause(err)
	return ok
}

// cause is what went wrong, in the words of telemetry and of the model.
type cause struct {
	code       tool.Code
	errorType  string
	constraint string
	hint       string
	// unprocessed: the peer itself says that it did not process the request.
	unprocessed bool
}

func unavailable(errorType, constraint string) cause {
	return cause{code: tool.CodeDependencyUnavailable, errorType: errorType, constraint: constraint}
}

func causeOf(ctx context.Context, err error, wrote bool) cause {
	// What the peer said counts for more than how our side ended.
	if c, ok := unprocessedCause(err); ok {
		return c
	}
	switch ended(ctx, err) {
	case context.Canceled: //nolint:errorlint // ended returns exactly these
		return cause{code: tool.CodeCancelled, errorType: ErrorTypeCancelled, constraint: "the call was cancelled"}
	case context.DeadlineExceeded:
		return timeoutCause(wrote)
	}
	if c, ok := connectCause(err); ok {
		return c
	}
	return lostCause(err, wrote)
}

// ended returns the error of the context when that is why the exchange ended.
// A context may carry a cause of its own, which transports return in place of
// context.Canceled and context.DeadlineExceeded.
func ended(ctx context.Context, err error) error {
	if ctx != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func timeoutCause(wrote bool) cause {
	if !wrote {
		return unavailable(ErrorTypeConnectTimeout, "no connection to the upstream could be made in time")
	}
	return cause{code: tool.CodeTimeout, errorType: ErrorTypeTimeout, constraint: "the upstream did not answer in time"}
}

// connectCause recognises what happens before there is a connection.
func connectCause(err error) (cause, bool) {
	var (
		dns  *net.DNSError
		op   *net.OpError
		addr *AddressError
	)
	switch {
	case errors.As(err, &addr):
		return cause{
			code: tool.CodeUnrecoverable, errorType: ErrorTypeAddressRefused,
			constraint: "the upstream's address is one that this backend may not call",
			hint:       "Do not repeat this call. Tell the user that an operator must check the address of this backend.",
		}, true
	case errors.As(err, &dns):
		return unavailable(ErrorTypeDNS, "the name of the upstream cannot be resolved"), true
	case errors.Is(err, syscall.ECONNREFUSED):
		return unavailable(ErrorTypeConnectionRefused, "the upstream refuses connections"), true
	case isTLS(err):
		return unavailable(ErrorTypeTLS, "no secure connection to the upstream could be made"), true
	case errors.As(err, &op) && op.Op == "dial":
		if op.Timeout() {
			return timeoutCause(false), true
		}
		return unavailable(ErrorTypeConnect, "the upstream cannot be reached"), true
	default:
		return cause{}, false
	}
}

// lostCause recognises how a connection is lost.
func lostCause(err error, wrote bool) cause {
	var (
		netErr net.Error
		stream streamError
	)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return timeoutCause(wrote)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return unavailable(ErrorTypeConnectionReset, "the upstream reset the connection")
	case errors.As(err, &stream), saysAny(err, streamReset):
		return unavailable(ErrorTypeStreamReset, "the upstream reset the request")
	case saysAny(err, goAway):
		return unavailable(ErrorTypeGoAway, "the upstream closed the connection")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), saysAny(err, idleClosed):
		return unavailable(ErrorTypeConnectionClosed, "the upstream closed the connection without an answer")
	default:
		return unavailable(ErrorTypeNetwork, "the connection to the upstream failed")
	}
}

// isTLS reports whether a handshake failed, on this side or the other.
func isTLS(err error) bool {
	var (
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		alert     tls.AlertError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		op        *net.OpError
	)
	return errors.As(err, &verify) || errors.As(err, &record) || errors.As(err, &alert) ||
		errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid) ||
		errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error") ||
		saysAny(err, handshake)
}

// net/http keeps most of its HTTP/2 errors to itself, and flattens them to text
// when it would have liked to send the request again but may not. Their texts
// are matched from the first character on, because some end in text that the
// peer chose. When a new Go release words them differently the tests fail, and
// until then the failures count as ambiguous, which is safe.
var (
	refusedStream = regexp.MustCompile(`^(http2: Transport: cannot retry err \[)?stream error: stream ID \d+; REFUSED_STREAM; received from peer`)
	goAwayAbove   = regexp.MustCompile(`^(http2: Transport: cannot retry err \[)?(http2: Transport received Server's graceful shutdown GOAWAY|http2: Transport received GOAWAY from server ErrCode:)`)
	unusableConn  = regexp.MustCompile(`^(http2: Transport: cannot retry err \[)?http2: client conn (not usable|could not be established)`)

	streamReset = regexp.MustCompile(`^(http2: Transport: cannot retry err \[)?stream error: stream ID \d+; `)
	goAway      = regexp.MustCompile(`^http2: server sent GOAWAY and closed the connection; `)
	idleClosed  = regexp.MustCompile(`^http: server closed idle connection`)
	handshake   = regexp.MustCompile(`^net/http: TLS handshake timeout`)
)

// unprocessedCause recognises a peer that says it did not process the request.
func unprocessedCause(err error) (cause, bool) {
	var c cause
	switch {
	case saysAny(err, refusedStream):
		c = unavailable(ErrorTypeRefusedStream, "the upstream refused the request before it began")
	case saysAny(err, goAwayAbove), saysAny(err, unusableConn):
		c = unavailable(ErrorTypeGoAway, "the upstream closed the connection before it began")
	default:
		return c, false
	}
	c.unprocessed = true
	return c, true
}

// saysAny reports whether the text of err, or of an error that it wraps,
// matches.
func saysAny(err error, pattern *regexp.Regexp) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if pattern.MatchString(err.Error()) {
			return true
		}
	}
	return false
}

// streamError has the fields of net/http's own HTTP/2 stream error, which knows
// how to copy itself into such a struct (net/http/h2_error.go).
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "HTTP/2 stream error" }
