// Package sidecall is the Go client of a sidecar: a thin layer over the
// generated stubs of sidecall.v1.
//
// It adds three things to them and hides nothing: the channel options that keep
// the promise "never twice" (nothing between here and the sidecar sends a
// request again), a Call in Go's own types, and a check that a batch brought one
// result for each call, in order.
//
//	client, err := sidecall.Dial("unix:///run/sidecall/sidecall.sock")
//	...
//	answered, err := client.RunTools(ctx, message, sidecall.Call{ConversationID: id, PromptID: prompt})
//	messages = append(messages, answered.Messages...)
//
// RunTools takes the message of a provider (Anthropic, OpenAI Chat Completions and
// Responses); ExecuteTools takes calls, for whoever has another. RunLoop is the loop between the
// model and its tools, and Launch starts a sidecar of the program's own.
//
// A tool that fails is no Go error: the Result says so (IsError, Error with the
// five fields, Recovery) and its Content is ready for the model. A Go error is
// for the program, and is a gRPC status:
//
//	InvalidArgument    a bug in the loop: no id or no tool name
//	ResourceExhausted  the sidecar has no room for the request now
//	Unavailable        no sidecar there, it is draining, or it died in the middle
//	DeadlineExceeded   the context ended first: the call may be running
//
// A span of OpenTelemetry in the context goes with each request, so that the call and its
// attempts are below it in one trace.
//
// After any error the same Call may be sent again with the same ids, and only
// with them: what is recorded is replayed, and what must not be repeated is not
// run a second time.
package sidecall

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// DefaultTarget is where a sidecar listens when its config does not say.
const DefaultTarget = "tcp://127.0.0.1:8470"

// MaxResponseBytes bounds one response. A batch of results can be much larger
// than gRPC's own default of 4 MiB, and one that is refused after the tools
// have run would have to be fetched again call by call.
const MaxResponseBytes = 256 << 20

// maxMessageBytes bounds one message of a conversation that the sidecar keeps.
const maxMessageBytes = 3 << 20

// ErrBrokenAnswer is wrapped by the error of a batch whose results do not belong to
// its calls: what answers is no sidecar of this contract.
var ErrBrokenAnswer = errors.New("the answer does not match the calls")

// ErrClosed is of a client that was closed, and sends nothing more. What it had sent may have
// been begun: the same calls with the same ids may be sent again by another, and only those.
var ErrClosed = errors.New("the client is closed: make another, and send the same calls with the same ids, since what was sent may have been begun")

// ErrNoConversation is of calls that name no conversation. Nothing was sent: it is the
// program's to mend, and no model's.
var ErrNoConversation = errors.New("every call belongs to a conversation: set Call.ConversationID to its id, the same one in all its turns and after a restart")

// The generated messages are the contract, so they are the result types too.
type (
	// Result is the one result of one call.
	Result = sidecallv1.ExecuteToolResponse
	// Error is the five fields of a failed call.
	Error = sidecallv1.ToolError
	// Tool is a tool that can be called.
	Tool = sidecallv1.Tool
)

// Call is one tool call of an assistant turn.
type Call struct {
	// ToolUseID is the provider's id of the call (tool_use.id, tool_call.id). Required.
	ToolUseID string
	// ToolName is the name that the model gave. Required.
	ToolName string
	// Arguments are the JSON text that the model gave, untouched: the sidecar
	// is the one to find fault with it. Empty means {}.
	Arguments string

	// ConversationID and TurnID are part of the call's identity. ConversationID is
	// required. Some providers start their ids again in every turn, so TurnID should be
	// something stable such as the turn's index.
	ConversationID, TurnID string
	// MessageID is the message of the model that the call stands in, for whoever sends the
	// calls of a message one after the other: the loop guard takes them together then.
	MessageID string
	// PromptID is the user prompt that the call belongs to.
	PromptID string
	// Profile chooses tools and limits; empty means the sidecar's default.
	Profile string

	// ValidateOnly checks the arguments and runs nothing.
	ValidateOnly bool
	// HoldOnly only asks whether a person has to allow the call first, and runs nothing: where
	// one has to, it is held.
	HoldOnly bool
	// Timeout may only shorten the tool's own deadline; 0 means that one.
	Timeout time.Duration
	// MaxOutputChars may only shorten the tool's own limit on Content, in
	// Unicode code points; 0 means that one.
	MaxOutputChars int32
	// TokensUsed is what the loop has spent in this prompt so far.
	TokensUsed int64
	// Labels go to logs and traces.
	Labels map[string]string
	// AllowDuplicateEffect runs the call although its effect has been had under another
	// id. For programs that have asked a person.
	AllowDuplicateEffect bool
}

// request is the call on the wire.
func (c Call) request() *sidecallv1.ExecuteToolRequest {
	r := &sidecallv1.ExecuteToolRequest{
		ToolUseId:      c.ToolUseID,
		ToolName:       c.ToolName,
		ArgumentsJson:  c.Arguments,
		ConversationId: c.ConversationID,
		TurnId:         c.TurnID,
		MessageId:      c.MessageID,
		PromptId:       c.PromptID,
		Profile:        c.Profile,
		ValidateOnly:   c.ValidateOnly,
		HoldOnly:       c.HoldOnly,
		MaxOutputChars: c.MaxOutputChars,
		TokensUsed:     c.TokensUsed,
		Labels:         c.Labels,

		AllowDuplicateEffect: c.AllowDuplicateEffect,
	}
	if c.Timeout > 0 {
		r.Timeout = durationpb.New(c.Timeout)
	}
	return r
}

// Client speaks to one sidecar. It is safe for concurrent use; one per process
// is enough.
type Client struct {
	conn    *grpc.ClientConn
	service sidecallv1.ToolServiceClient
	closed  atomic.Bool

	// Of a sidecar that Launch.Start has started: end ends it, ended is how it has. Else nothing.
	end, ended func() error
}

// Dial prepares a client for the sidecar at target: tcp://host:port,
// unix:///path, anything else that gRPC resolves, or empty for DefaultTarget.
// It connects at the first call, and again by itself whenever the connection
// was lost. opts come after the client's own and may replace them, credentials
// for example: without any, the connection is plain text, as on a loopback or
// unix socket it may be.
func Dial(target string, opts ...grpc.DialOption) (*Client, error) {
	if target == "" {
		target = DefaultTarget
	}
	if !canBeMeant(target) {
		return nil, fmt.Errorf("target: want tcp://host:port or unix:///path, got %q", target)
	}
	nothing := func() error { return nil }
	c := &Client{end: nothing, ended: nothing}
	own := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// There is one retry layer, and it is in the sidecar.
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		// One that was away is found as soon as it is back.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 20 * time.Second,
		}),
		// A sidecar is next door: never through HTTP_PROXY.
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxResponseBytes)),
		grpc.WithChainUnaryInterceptor(c.unlessClosed, sendSpan),
	}
	conn, err := grpc.NewClient(strings.TrimPrefix(target, "tcp://"), append(own, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("sidecar at %s: %w", target, err)
	}
	c.conn, c.service = conn, sidecallv1.NewToolServiceClient(conn)
	return c, nil
}

// canBeMeant refuses what gRPC would take for something else: a host without a port for one with
// 443, what stands before a path that is not absolute for an authority, a URL for a name.
func canBeMeant(target string) bool {
	if path, ok := strings.CutPrefix(target, "unix://"); ok {
		return strings.HasPrefix(path, "/")
	}
	address, ok := strings.CutPrefix(target, "tcp://")
	_, port, err := net.SplitHostPort(address)
	return ok && err == nil && port != "" || !ok && !strings.HasPrefix(target, "http://") && !strings.HasPrefix(target, "https://")
}

// unlessClosed says of a request that fails when the client is closed that it is.
func (c *Client) unlessClosed(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, conn, opts...)
	if err != nil && c.closed.Load() {
		return ErrClosed
	}
	return err
}

// Close closes the connection. Calls in flight end with ErrClosed, as calls do that come later; the
// sidecar finishes and records what it has begun. One that was launched ends then. It may be
// called again.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	return errors.Join(c.conn.Close(), c.end())
}

// Stub is the generated client, for what has no method here: GetExecution
// ("did it run?") and ReadOutput (pages of an output that was cut; with the
// ConversationId of its call).
func (c *Client) Stub() sidecallv1.ToolServiceClient { return c.service }

// Servers returns the stub of the service that hands on what MCP servers have beside tools. It
// is for fronts that serve MCP clients.
func (c *Client) Servers() sidecallv1.McpServiceClient { return sidecallv1.NewMcpServiceClient(c.conn) }

// Operator returns the stub of the service for those who look after a sidecar:
// it lists and settles calls of which nobody knows whether they ran. It is served
// at the sidecar's operator socket, so of a Client that was dialled there. A loop
// has no use for it.
func (c *Client) Operator() sidecallv1.OperatorServiceClient {
	return sidecallv1.NewOperatorServiceClient(c.conn)
}
