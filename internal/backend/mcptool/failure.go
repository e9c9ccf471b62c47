package mcptool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// readyWait is how long an attempt waits for a session: long enough for a server
	// that has just died to be there again, so that nobody notices.
	readyWait = 2 * time.Second
	// soon is what a call is told that has waited for a session in vain, while one is
	// still being opened.
	soon = time.Second
)

const (
	errorTypeOther = "result_type"
	errorTypeInput = "input_required"
	// maxMessage bounds what a failure repeats of the server's words.
	maxMessage = 4 << 10
)

// downFailure is a call while there is no session: nothing was sent. Where it is
// known when the next try begins, it is told.
func downFailure(st *state) *tool.Failure {
	f := &tool.Failure{
		Code:       tool.CodeDependencyUnavailable,
		Evidence:   tool.NotExecuted,
		Constraint: "the MCP server is not available",
		ErrorType:  "backend_down",
		Unreached:  true,
		Err:        st.reason,
	}
	switch left := time.Until(st.due); {
	case st.opening == nil: // none is to come, or one has come in this moment
	case left > 0:
		f.RetryAfter, f.KnownDown = left, left > readyWait
	default:
		f.RetryAfter = soon
	}
	return f
}

// ended is a call whose context ended.
func ended(ctx context.Context, evidence tool.Evidence) *tool.Failure {
	f := backend.ContextEnded(ctx, evidence, "the tool did not answer in time")
	f.Unreached = f.Code == tool.CodeTimeout && evidence == tool.NotExecuted
	return f
}

// unansweredFailure is a call without an answer. Only the transport knows
// whether anything was sent; the SDK's error says nothing about it.
func unansweredFailure(ctx context.Context, a seen, err error) *tool.Failure {
	evidence := tool.Ambiguous
	if !a.sent {
		evidence = tool.NotExecuted
	}
	if ctx.Err() != nil {
		return ended(ctx, evidence)
	}
	if a.err != nil {
		err = a.err
	}
	if a.sent {
		return lost(err)
	}
	return &tool.Failure{
		Code:       tool.CodeDependencyUnavailable,
		Evidence:   tool.NotExecuted,
		Constraint: "the MCP server could not be reached",
		ErrorType:  connectErrorType(err),
		Unreached:  true,
		Err:        err,
	}
}

// lost is a call that was sent and whose answer did not come, or not whole.
func lost(err error) *tool.Failure {
	return &tool.Failure{
		Code:       tool.CodeDependencyUnavailable,
		Evidence:   tool.Ambiguous,
		Constraint: "the connection to the MCP server was lost before its answer came",
		ErrorType:  "connection_lost",
		Err:        err,
	}
}

func connectErrorType(err error) string {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &dns):
		return "dns"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection_refused"
	case errors.As(err, &cert), errors.As(err, &record):
		return "tls"
	default:
		return "not_sent"
	}
}

// unreadable is an answer that holds no result that can be read.
func unreadable(evidence tool.Evidence, constraint string, err error) *tool.Failure {
	return &tool.Failure{
		Code:       tool.CodeInvalidOutput,
		Evidence:   evidence,
		Constraint: constraint,
		ErrorType:  "invalid_output",
		Err:        err,
	}
}

// otherResult is an answer in place of the result. Of the type task it names work
// that has only begun; of another one nobody knows what it says.
func otherResult(kind any) *tool.Failure {
	f := unreadable(tool.Ambiguous, fmt.Sprintf(
		"the tool was started, and the answer of its server is of the type %q, which does not say how it ended", clip(fmt.Sprint(kind))), nil)
	f.ErrorType = errorTypeOther
	return f
}

// inputRequired is a tool that wants to ask the user something in mid-call.
func inputRequired() *tool.Failure {
	return &tool.Failure{
		Code:        tool.CodeUnrecoverable,
		Constraint:  "the tool asks for input that nobody here can give",
		ErrorType:   errorTypeInput,
		CallerFault: true,
	}
}

// toolFailure is a result with isError: the tool's own word that it failed.
// Servers built with the official SDKs also say in this way that the arguments
// are wrong or that there is no such tool, in fixed phrases, before they run
// anything. So may a tool, of something else or of a second try of its own (a
// gateway whose server died in the middle says that the tool is not found), and the
// list of tools would agree. What any of it proves is for
// backend.Invocation.OwnWord to say.
func toolFailure(reply tool.Reply, call *backend.Invocation) *tool.Failure {
	f := &tool.Failure{
		Code:        tool.CodeUnrecoverable,
		Message:     clip(string(reply.Text)),
		Constraint:  "the tool answers with an error",
		ErrorType:   "tool_error",
		CallerFault: true,
	}
	text, isRPC := strings.CutPrefix(f.Message, "MCP error -32602: ")
	switch {
	case isRPC && unknownTool(text), !isRPC && strings.HasPrefix(text, "Unknown tool: "):
		f.Code = tool.CodeUnknownTool
	case isRPC, strings.HasPrefix(text, "Input validation error: "):
		f.Code = tool.CodeInvalidArgs
	}
	return call.OwnWord(f)
}

// unknownTool recognizes the phrases of the official SDKs for a tool that is
// not there; JSON-RPC has no code of its own for it.
func unknownTool(message string) bool {
	m := strings.ToLower(message)
	return strings.Contains(m, "unknown tool") ||
		strings.HasPrefix(m, "tool ") && strings.HasSuffix(m, " not found")
}

// rpcFailure is a JSON-RPC error in place of a result. Any of its codes may come
// from a handler that failed half way, or from a server behind a gateway: the SDKs
// pass on what a handler returns, -32601 too.
func rpcFailure(e *jsonrpc.Error, call *backend.Invocation) *tool.Failure {
	f := &tool.Failure{
		Code:        tool.CodeUnrecoverable,
		Message:     clip(e.Message),
		Constraint:  fmt.Sprintf("the MCP server answers with the JSON-RPC error %d", e.Code),
		ErrorType:   strconv.FormatInt(e.Code, 10),
		CallerFault: true,
	}
	switch e.Code {
	case jsonrpc.CodeInvalidParams:
		f.Code = tool.CodeInvalidArgs
		if unknownTool(e.Message) {
			f.Code = tool.CodeUnknownTool
		}
	case jsonrpc.CodeMethodNotFound:
		f.Code = tool.CodeUnknownTool
	case jsonrpc.CodeInvalidRequest, jsonrpc.CodeParseError:
	default:
		f.CallerFault = false
	}
	return call.OwnWord(f)
}

// statusFailure is an HTTP error in place of an MCP answer.
func statusFailure(a answer, call backend.Invocation) *tool.Failure {
	if a.rpc != nil && a.status < 500 && a.status != http.StatusTooManyRequests && a.session == sessionKept {
		f := rpcFailure(a.rpc, &call)
		f.Status = a.status
		return f
	}
	f := &tool.Failure{
		Code:        tool.CodeUnrecoverable,
		Evidence:    tool.Definite,
		Constraint:  fmt.Sprintf("the MCP server answers %d %s", a.status, http.StatusText(a.status)),
		Status:      a.status,
		ErrorType:   strconv.Itoa(a.status),
		CallerFault: a.status < 500,
		Err:         a.err,
	}
	if !backend.Refuses(a.status) {
		f.Evidence = tool.Ambiguous
	}
	if a.rpc != nil {
		f.Message = clip(a.rpc.Message)
	}
	switch {
	case a.session != sessionKept:
		f.Code, f.Evidence = tool.CodeDependencyUnavailable, tool.Ambiguous
		if a.session == sessionGone {
			// The protocol: a request with a session that is unknown is refused.
			f.Evidence = tool.NotExecuted
		}
		f.Constraint = "the MCP session has expired"
		f.ErrorType, f.CallerFault = "session_expired", true
	case a.status == http.StatusUnauthorized:
		f.Code = tool.CodeUnauthenticated
	case a.status == http.StatusForbidden:
		f.Code = tool.CodePermissionDenied
	case a.status == http.StatusTooManyRequests:
		f.Code, f.Evidence = tool.CodeRateLimited, tool.Ambiguous
	case a.status == http.StatusRequestTimeout:
		f.Code, f.Evidence = tool.CodeTimeout, tool.Ambiguous
	case a.status >= 500:
		f.Code = tool.CodeDependencyUnavailable
	}
	if f.Evidence == tool.Ambiguous {
		f.RetryAfter = backend.RetryAfter(a.header, time.Now())
		if slices.Contains(call.RejectsBeforeWork, a.status) {
			f.Evidence = tool.NotExecuted
		}
	}
	return f
}

// clip is what a failure repeats of the server's words.
func clip(s string) string { return tool.ShortenBytes(strings.ToValidUTF8(s, "\uFFFD"), maxMessage) }

// withoutURL takes the URL out of an error of an HTTP client: it may hold a
// secret.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// unfit is a further round of a call whose answers cannot be read: nothing was sent.
func unfit(err error) *tool.Failure {
	return &tool.Failure{
		Code:        tool.CodeInvalidArgs,
		Evidence:    tool.NotExecuted,
		Constraint:  "what was answered to the tool's questions cannot be read",
		ErrorType:   "input_responses",
		CallerFault: true,
		Err:         err,
	}
}
