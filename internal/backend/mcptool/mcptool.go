// Package mcptool is the mcp backend: tools that an MCP server offers, over
// stdio (a process that Sidecall starts) or streamable HTTP.
//
// The official SDK keeps the protocol: handshake, request ids, cancellation,
// notifications. What Sidecall promises beyond it is done where bytes cross the
// process boundary, below the SDK:
//
//	Invoke ── SDK session ──┬─ pipes (stdio.go)  lines ── process
//	   ▲                    └─ wire  (wire.go)   HTTP  ── server
//	   └── capture ── inbox ──────┘
//
// Each request that matters carries a capture in its context. The transport
// tells it whether any byte of the request can have left, and the inbox of the
// session hands it the answer as it came. Three things follow. What a failure proves is known rather
// than guessed from the SDK's errors, which call a reset after sending
// "rejected". Results are read once, from the original bytes, so that numbers,
// key order and unknown content survive. And the SDK sees only well-formed, small
// messages, so that one sick answer cannot end a session that others use.
//
// # What the SDK cannot be left
//
// As of v1.8.0. A Connection around its HTTP one is not told of the handshake, since
// clientConnection is not exported: no Mcp-Protocol-Version is sent, and no stream of
// notifications opened. So HTTP is watched by a RoundTripper, which is also the only
// place that sees the first byte. Its HTTP connection fails, with every call in
// flight, at one malformed or long event, one status that it does not know, one body
// that breaks, and a few ends of a stream without a new event
// (streamableClientConn.fail). Its stdio connection ends at one line that is no
// message or too long, and writes under a lock that no deadline ends (ioConn). Its
// decoder takes five times the memory of a large answer, and loses one that is nested
// deeper than 1000 (internal/json). Its pings go on while a server works. From a
// server that it does not know it asks for the newest protocol first, which one that
// answers only what it knows does not answer.
//
// # Re-sends
//
// None. Multi-round-trip calls are off, redirects are not followed, requests
// have no GetBody, and headers that would make Go's transport replay a request
// are refused. The SDK resumes a broken result stream with GET, which asks for
// the rest of an answer and starts nothing. So does what follows a task, which is
// asked for again.
//
// # Down and up again
//
// Run keeps one session open. A process that exits, hangs or breaks the
// protocol is ended as a group and started again after an exponential, jittered
// delay. While there is no session, a call waits for the next one, for readyWait at
// the most; when the next try is later than that, it fails at once and is told when
// that is. Either way it is provably unexecuted. An HTTP session that the server has
// forgotten is replaced without delay; calls of the old one come to their end.
package mcptool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/process"
)

// Config is one MCP server. Exactly one of Command and URL is set.
type Config struct {
	// Name of the backend, for errors and logs.
	Name string

	// Command is the program of a stdio server and its arguments; no shell.
	Command []string
	// Dir is its working directory; empty means Sidecall's own.
	Dir string
	// Env is its whole environment, as NAME=VALUE.
	Env []string
	// User is whom it runs as; nil means Sidecall's own user.
	User *process.User

	// URL is the endpoint of a streamable HTTP server.
	URL string
	// Headers are sent with every request to URL.
	Headers map[string]string
	// HTTPClient connects to URL and decides which addresses may be reached.
	// Required with URL: there is no default that would forget that check.
	// Its Timeout and CheckRedirect are not used.
	HTTPClient *http.Client

	// Protocol is the revision that is asked for first; empty means the settled one.
	Protocol string

	// HandsOn is what of the server reaches the caller of the only call that is under way:
	// elicitation, sampling, logging.
	HandsOn []string

	// MaxMessage is the most bytes of one message of the server that are
	// read; 0 means 32 MiB. A larger result is INVALID_OUTPUT.
	MaxMessage int
	// MaxList is the most bytes of the whole tool list, all pages together,
	// that are read; 0 means 64 MiB, and it is never below MaxMessage. The
	// rest of a longer list is left out.
	MaxList int
	// Timing holds waits and bounds; its zero value is fine.
	Timing Timing
	// Logger may be nil.
	Logger *slog.Logger
	// Version of Sidecall, told to the server; empty means unknown.
	Version string
}

// Timing bounds what can wait. Zero means the default.
type Timing struct {
	// Connect bounds start and handshake; 60 s, as npx may have to download.
	Connect time.Duration
	// List bounds one reading of the tool list; 30 s.
	List time.Duration
	// PingEvery is how long an idle server is left alone; 30 s.
	PingEvery time.Duration
	// Ping is how long it may take to answer a ping; 10 s. Two missed in a
	// row are a hang.
	Ping time.Duration
	// RestartBase and RestartMax bound the delay before connecting again:
	// it doubles from the one to the other; 500 ms and 30 s.
	RestartBase, RestartMax time.Duration
	// Grace is how long a process may take to end after SIGTERM; 2 s.
	Grace time.Duration
}

const (
	defaultMaxMessage = 32 << 20
	defaultMaxList    = 64 << 20
)

func (t Timing) withDefaults() Timing {
	return Timing{
		Connect: cmp.Or(t.Connect, time.Minute), List: cmp.Or(t.List, 30*time.Second),
		PingEvery: cmp.Or(t.PingEvery, 30*time.Second), Ping: cmp.Or(t.Ping, 10*time.Second),
		RestartBase: cmp.Or(t.RestartBase, 500*time.Millisecond), RestartMax: cmp.Or(t.RestartMax, 30*time.Second),
		Grace: cmp.Or(t.Grace, 2*time.Second),
	}
}

// Backend is an MCP server. It implements backend.Discoverer.
type Backend struct {
	cfg    Config
	timing Timing
	log    *slog.Logger

	// state is what Invoke looks at; only Run changes it.
	state current
	// modern is set while the newest protocol is to be tried: see open.
	modern bool
	// attempts numbers progress tokens.
	attempts atomic.Int64

	// listening are those who hear what is for everybody.
	listening *listeners

	// closing ends Run and everything it started.
	closing context.Context
	close   context.CancelFunc
	// running is what Close waits for. Only what Run started, directly or not, may call its Go:
	// Run's own count then keeps Close waiting meanwhile.
	running backend.Running
}

var _ backend.Discoverer = (*Backend)(nil)

var errNotStarted = errors.New("the backend has not been started")

// New checks the config. It neither starts nor connects anything: Run does.
func New(cfg Config) (*Backend, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("backend %s: %w", cfg.Name, err)
	}
	b := &Backend{cfg: cfg, timing: cfg.Timing.withDefaults(), listening: newListeners()}
	b.log = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)).With("backend", cfg.Name)
	b.cfg.MaxMessage = cmp.Or(cfg.MaxMessage, defaultMaxMessage)
	b.cfg.MaxList = max(cmp.Or(cfg.MaxList, defaultMaxList), b.cfg.MaxMessage)
	b.cfg.Version = cmp.Or(cfg.Version, "unknown")
	b.modern = cfg.Protocol == newestProtocol
	b.closing, b.close = context.WithCancel(context.Background())
	b.state.Store(&state{reason: errNotStarted})
	return b, nil
}

func (cfg Config) validate() error {
	switch {
	case cfg.URL == "" && len(cfg.Command) == 0:
		return errors.New("an mcp backend needs a command or a url")
	case cfg.URL != "" && len(cfg.Command) != 0:
		return errors.New("an mcp backend has a command or a url, not both")
	case cfg.URL == "":
		return process.Spec{Argv: cfg.Command, Dir: cfg.Dir, Env: cfg.Env}.Validate()
	}
	u, err := url.Parse(cfg.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		// Not shown: it may hold a secret.
		return errors.New("the url is not an http or https URL")
	}
	if cfg.HTTPClient == nil {
		return errors.New("an mcp backend with a url needs an HTTP client")
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Headers)) { // of several mistakes always the same
		switch http.CanonicalHeaderKey(name) {
		case "Idempotency-Key", "X-Idempotency-Key":
			return fmt.Errorf("header %s is refused: with it Go's HTTP transport sends a request again by itself", name)
		case "Content-Type", "Content-Length", "Accept", "Host", "Connection", "Transfer-Encoding", "Last-Event-Id":
			return fmt.Errorf("header %s belongs to the protocol and cannot be set", name)
		}
		if strings.HasPrefix(http.CanonicalHeaderKey(name), "Mcp-") {
			return fmt.Errorf("header %s belongs to the protocol and cannot be set", name)
		}
	}
	return nil
}

// Close ends Run, the session and the process, and waits for them until ctx
// ends.
func (b *Backend) Close(ctx context.Context) error {
	b.running.Shut()
	b.close()
	return b.running.Ended(ctx, b.cfg.Name)
}
