package config

import (
	"reflect"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Backend is a place where tools live: exactly one of its kinds is not nil.
type Backend struct {
	HTTP *HTTPBackend `yaml:"http" one:"kind" doc:"An HTTP API; its tools are declared under tools."`
	MCP  *MCPBackend  `yaml:"mcp" one:"kind" doc:"An MCP server; it says itself which tools it has."`
	Exec *ExecBackend `yaml:"exec" one:"kind" doc:"Local commands; its tools are declared under tools."`

	Worker *WorkerBackend `yaml:"worker" one:"kind" doc:"Functions in programs that connect and say themselves which tools they have. See workers.md."`

	Breaker     Breaker     `yaml:"breaker" doc:"When calls stop being sent to a failing tool of it, and to all of them while it cannot be reached."`
	MaxInFlight int         `yaml:"max_in_flight" doc:"Calls in flight at this backend; more are refused as OVERLOADED." default:"256" min:"1" max:"1000000"`
	Adaptive    bool        `yaml:"adaptive" doc:"Lower the bound of a tool by itself while calls wait at the backend for longer than their callers do; what is too much is refused as OVERLOADED." default:"true"`
	RetryBudget RetryBudget `yaml:"retry_budget" doc:"The most that attempts after the first may add to the load of this backend, of all its tools together: as many as the larger of its two keys allows."`
	RateLimit   *RateLimit  `yaml:"rate_limit" doc:"The most calls per second at this backend. Without this key: no limit."`
	Trust       Trust       `yaml:"trust" doc:"Whether its tools are trusted: their output is, and they get the caller's baggage. Without this key: untrusted for the tools of an mcp server, trusted for declared ones and those of workers."`

	Optional bool `yaml:"optional" with:"mcp|worker" doc:"The sidecar is ready without having found the tools of this backend. Without this key /readyz waits for the first discovery. Workers are never waited for."`

	Prefix  string                 `yaml:"prefix" with:"mcp|worker" doc:"Put before the names of discovered tools. No tool of another backend is called so." format:"prefix"`
	Include []string               `yaml:"include" with:"mcp|worker" doc:"Globs of the discovered tools to offer, without prefix. Without this key: all." format:"glob"`
	Exclude []string               `yaml:"exclude" with:"mcp|worker" doc:"Globs of the discovered tools not to offer, without prefix; stronger than include." format:"glob"`
	Effects map[string]tool.Effect `yaml:"effects" with:"mcp|worker" doc:"Effect of discovered tools by name without prefix; * for the rest. keyed on an mcp backend counts where its server says that it honours the key (see mcp-idempotency.md), and as non_idempotent elsewhere." keys:"nonempty"`
	Pin     bool                   `yaml:"pin" with:"mcp|worker" doc:"Refuse discovered tools that say something else of themselves (description, schemas, annotations) than their line in the file of pins. A tool that has no line is written down when it is first seen; where the file cannot be written it is refused."`
	Tools   map[string]Override    `yaml:"tools" with:"mcp|worker" doc:"Policy of discovered tools by name without prefix." keys:"nonempty"`
}

// Kind is the key of its kind; exec where it has none, which the decoder refuses.
func (b Backend) Kind() string { return append(kindsOf(b), "exec")[0] }

// HasOneKind reports whether exactly one kind is there, as the decoder demands.
func (b Backend) HasOneKind() bool { return len(kindsOf(b)) == 1 }

// Place is the backend without what the file says of its calls and of its tools.
func (b Backend) Place() (place Backend) {
	keys := shapeOf(reflect.TypeFor[Backend]()).byKey
	for _, kind := range kindsOf(b) {
		at := keys[kind].index
		reflect.ValueOf(&place).Elem().FieldByIndex(at).Set(reflect.ValueOf(b).FieldByIndex(at))
	}
	return place
}

// Discovers reports whether the backend finds its tools at run time.
func (b Backend) Discovers() bool { return b.MCP != nil || b.Worker != nil }

// Awaited reports whether the sidecar is ready only when the backend has found its
// tools. For workers nobody waits: an agent that is one starts after its sidecar.
func (b Backend) Awaited() bool { return b.MCP != nil && !b.Optional }

// trustsClaims reports whether what a tool's owner says of its effect counts.
func (b Backend) trustsClaims() bool {
	return b.MCP != nil && b.MCP.TrustAnnotations || b.Worker != nil && b.Worker.TrustEffects
}

// trustUnsaid is the trust of a discovered tool of which nothing is said. A worker is
// the team's own program, as a command is.
func (b Backend) trustUnsaid() Trust {
	if b.Worker != nil {
		return Trusted
	}
	return Untrusted
}

// HTTPBackend is an HTTP API.
type HTTPBackend struct {
	BaseURL        Text              `yaml:"base_url" doc:"http or https URL before every path; no query, no user." required:"true" format:"base_url"`
	Headers        map[string]Secret `yaml:"headers" doc:"Headers sent with every request." keys:"header" format:"header_value"`
	AllowPrivate   bool              `yaml:"allow_private" doc:"Allow loopback and private addresses. Link-local and metadata addresses are always refused."`
	Proxy          Secret            `yaml:"proxy" doc:"URL of a forward proxy; its own address may be private. Without this key: none, whatever HTTP_PROXY says. Addresses stay guarded: the upstream's, or what its name resolves to here; the proxy resolves it again by itself, and reads everything of an http upstream, host and port of an https one." format:"proxy_url"`
	MaxConns       int               `yaml:"max_conns" doc:"Connections at most; calls beyond wait for one. 0 for no bound but max_in_flight." min:"0" max:"1000000"`
	ConnectTimeout time.Duration     `yaml:"connect_timeout" doc:"Time to resolve and connect, and once more for the TLS handshake." default:"10s" min:"1ms" max:"1h"`
	IdleTimeout    time.Duration     `yaml:"idle_timeout" doc:"How long an unused connection is kept. Better shorter than the upstream keeps it: a request that crosses a close may or may not have run." default:"4s" min:"1ms" max:"1h"`
	HTTP2          bool              `yaml:"http2" doc:"Use HTTP/2 where an https upstream offers it." default:"true"`
	TLS            *TLS              `yaml:"tls" doc:"How an https upstream is verified, and the client certificate."`
}

// MCPBackend is an MCP server: a process (Command) or a URL.
type MCPBackend struct {
	Command          []Text            `yaml:"command" one:"transport" doc:"Program and arguments of a server that speaks on stdin and stdout. No shell." items:"1"`
	URL              Text              `yaml:"url" one:"transport" doc:"URL of a streamable HTTP server." format:"url"`
	Env              Env               `yaml:"env" with:"command" doc:"Environment of the command: a list of names to pass on, or a map of names to values. Nothing else is inherited."`
	Dir              Path              `yaml:"dir" with:"command" doc:"Working directory of the command. Without this key: that of the config file."`
	RunAs            Text              `yaml:"run_as" with:"command" doc:"User of the command, as user or user:group, by name or number. Needs root, or the capabilities to change user and to end others' processes. Without this key: Sidecall's own, whose files it may then read." format:"run_as"`
	Headers          map[string]Secret `yaml:"headers" with:"url" doc:"Headers sent with every request to the URL." keys:"header" format:"header_value"`
	AllowPrivate     bool              `yaml:"allow_private" with:"url" doc:"Allow loopback and private addresses for the URL."`
	ConnectTimeout   time.Duration     `yaml:"connect_timeout" doc:"Time to start or connect, handshake included." default:"60s" min:"1ms" max:"1h"`
	Protocol         string            `yaml:"protocol" doc:"The revision of MCP that is asked for first; a server that refuses it is asked for the other. With the later one its tools may ask for input, and a client that can is asked (see mcp.md)." enum:"2025-11-25|2026-07-28" default:"2025-11-25"`
	HandsOn          []string          `yaml:"hands_on" doc:"What of the server reaches the client of a call while it runs, where that is an MCP client that can take it: its questions, its log messages. See mcp.md." enum:"elicitation|sampling|logging"`
	TrustAnnotations bool              `yaml:"trust_annotations" doc:"Take effects from the server's own annotations (readOnlyHint, idempotentHint) where effects says nothing."`
}

// ExecBackend runs local commands.
type ExecBackend struct {
	Dir Path `yaml:"dir" doc:"Working directory of the commands. Without this key: that of the config file."`
	Env Env  `yaml:"env" doc:"Environment of the commands: a list of names to pass on, or a map of names to values. Nothing else is inherited."`

	RunAs Text `yaml:"run_as" doc:"User of the commands, as user or user:group, by name or number. Needs root, or the capabilities to change user and to end others' processes. Without this key: Sidecall's own, whose files they may then read." format:"run_as"`
}

// WorkerBackend is functions in programs that connect to the sidecar.
type WorkerBackend struct {
	MaxWorkers   int           `yaml:"max_workers" doc:"Workers at a time; more are refused." default:"64" min:"1" max:"10000"`
	MaxTools     int           `yaml:"max_tools" doc:"Tools of all workers together, with those of workers that are away; a registration that would bring more is refused." default:"1000" min:"1" max:"10000"`
	Heartbeat    time.Duration `yaml:"heartbeat" doc:"A worker that says nothing for three times as long is taken for dead." default:"5s" min:"100ms" max:"10m"`
	TrustEffects bool          `yaml:"trust_effects" doc:"Take effects from the workers where effects says nothing: they are the team's own code." default:"true"`
}

// Breaker says when calls stop being sent. Each tool has a breaker of its own, and the
// connection to the backend has one: that one tool fails says nothing about another.
type Breaker struct {
	Failures int           `yaml:"failures" doc:"Failures within the window that open it: of a tool, its own; of the connection, those in which none could be made (refused, DNS, TLS, a server that is down)." default:"5" min:"1" max:"1000000"`
	Window   time.Duration `yaml:"window" doc:"How long a failure counts." default:"30s" min:"100ms" max:"24h"`
	OpenFor  time.Duration `yaml:"open_for" doc:"How long it stays open before a probe." default:"10s" min:"10ms" max:"24h"`
}

// RetryBudget caps the retries at a backend, which is no help to one that fails under too
// much load. Over ten seconds there are as many as the larger of both allows.
type RetryBudget struct {
	Share     float64 `yaml:"share" doc:"Retries per call of the last ten seconds: with 0.2 a backend that is down gets 1.2 times its calls at the most." default:"0.2" min:"0" max:"100"`
	PerSecond float64 `yaml:"per_second" doc:"Retries per second, over ten seconds, however few the calls are: with 3, 30 at once and then none for ten seconds. A call that this keeps from being made again says so in its hint." default:"3" min:"0" max:"1000000"`
}

// RateLimit is a token bucket.
type RateLimit struct {
	PerSecond float64 `yaml:"per_second" doc:"Calls per second in the long run." required:"true" min:"0.001" max:"1000000"`
	Burst     int     `yaml:"burst" doc:"Calls at once." default:"1" min:"1" max:"1000000"`
}

// Override is the policy of one discovered tool.
type Override struct {
	Description Text `yaml:"description" doc:"Shown to the model instead of the server's own description."`
	CallRules   `yaml:",inline"`
}
