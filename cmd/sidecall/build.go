package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/backend/exectool"
	"github.com/sidecall/sidecall/backend/httptool"
	"github.com/sidecall/sidecall/backend/mcptool"
	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/config"
	"github.com/sidecall/sidecall/limit"
	"github.com/sidecall/sidecall/retry"
	"github.com/sidecall/sidecall/server"
)

// host is a backend with the guards that its tools share.
type host struct {
	name    string
	config  config.Backend
	backend backend.Backend
	// register makes a declared tool known to the backend before it is routed.
	register func(name string, t config.Tool) error

	slots   *limit.Bulkhead
	rate    *limit.Rate
	retries *retry.Budget
	// secrets takes what the backend was entrusted with out of its errors.
	secrets *strings.Replacer
	// breaker is shared; nil when every tool has one of its own.
	breaker *breaker.Breaker
}

// builder turns a config into backends and routes. It collects everything that
// is wrong, with the position in the file.
type builder struct {
	config *config.Config
	logger *slog.Logger
	// onBreaker hears of state changes.
	onBreaker func(name string, from, to breaker.State)

	hosts map[string]*host
	// mu guards breakers and guards: backends discover their tools at the same
	// time.
	mu       sync.Mutex
	breakers map[string]*breaker.Breaker
	// guards are those of single tools, by backend and tool.
	guards   map[string]map[string]*toolGuards
	problems config.Problems
}

func newBuilder(cfg *config.Config, logger *slog.Logger) *builder {
	return &builder{
		config: cfg, logger: logger,
		hosts: make(map[string]*host), breakers: make(map[string]*breaker.Breaker),
		guards: make(map[string]map[string]*toolGuards),
		onBreaker: func(name string, from, to breaker.State) {
			logger.Warn("breaker", "name", name, "from", from.String(), "to", to.String())
		},
	}
}

// build makes every backend and every declared route. Nothing is connected or
// started yet.
func (b *builder) build() ([]*server.Route, error) {
	b.checkStore()
	for _, name := range slices.Sorted(maps.Keys(b.config.Backends)) {
		b.buildHost(name)
	}
	var routes []*server.Route
	for _, name := range slices.Sorted(maps.Keys(b.config.Tools)) {
		if route := b.declaredRoute(name); route != nil {
			routes = append(routes, route)
		}
	}
	if len(b.problems) > 0 {
		slices.SortStableFunc(b.problems, func(p, q config.Problem) int {
			return cmp.Or(p.Line-q.Line, p.Column-q.Column)
		})
		return nil, errors.Join(b.problems, b.close(context.Background()))
	}
	return routes, nil
}

// wrong records a problem at a place in the file.
func (b *builder) wrong(err error, path ...string) {
	problem := b.config.Where(path...)
	problem.Message = err.Error()
	b.problems = append(b.problems, problem)
}

func (b *builder) buildHost(name string) {
	cfg := b.config.Backends[name]
	h := &host{name: name, config: cfg, slots: limit.NewBulkhead(cfg.MaxInFlight), retries: retry.NewBudget(), secrets: secretsOf(cfg)}
	if cfg.RateLimit != nil {
		h.rate = limit.NewRate(cfg.RateLimit.PerSecond, cfg.RateLimit.Burst)
	}
	if !cfg.Breaker.PerTool {
		h.breaker = b.newBreaker(name, cfg.Breaker)
	}
	var err error
	switch cfg.Kind() {
	case "http":
		err = b.buildHTTP(h)
	case "mcp":
		err = b.buildMCP(h)
	default:
		err = b.buildExec(h)
	}
	if err != nil {
		b.wrong(err, "backends", name, cfg.Kind())
		return
	}
	b.hosts[name] = h
}

// newBreaker is called under mu, or before anything else runs.
func (b *builder) newBreaker(name string, cfg config.Breaker) *breaker.Breaker {
	made := breaker.New(breaker.Settings{
		Name: name, Failures: uint32(cfg.Failures),
		Window: cfg.Window, OpenFor: cfg.OpenFor, OnChange: b.onBreaker,
	})
	b.breakers[name] = made
	return made
}

func (b *builder) buildHTTP(h *host) error {
	cfg := h.config.HTTP
	made := httptool.Config{
		Name: h.name, BaseURL: cfg.BaseURL.Reveal(), Headers: config.RevealMap(cfg.Headers),
		AllowPrivate: cfg.AllowPrivate, MaxConns: cfg.MaxConns, DisableHTTP2: !cfg.HTTP2,
		ConnectTimeout: cfg.ConnectTimeout, IdleTimeout: cfg.IdleTimeout,
	}
	if proxy := cfg.Proxy.Reveal(); proxy != "" {
		parsed, err := url.Parse(proxy)
		if err != nil {
			return fmt.Errorf("proxy: %w", err)
		}
		made.Proxy = parsed
	}
	if cfg.TLS != nil {
		loaded, err := loadTLS(*cfg.TLS)
		if err != nil {
			return fmt.Errorf("tls: %w", err)
		}
		made.TLS = loaded
	}
	backend, err := httptool.New(made)
	if err != nil {
		return err
	}
	h.backend = backend
	h.register = func(name string, t config.Tool) error {
		spec := httptool.Spec{
			Method: t.HTTP.Method, Path: t.HTTP.Path, Query: t.HTTP.Query, Headers: t.HTTP.Headers,
			IdempotencyHeader: t.HTTP.IdempotencyHeader,
		}
		if t.HTTP.Body != nil {
			spec.Body = &httptool.Body{Arg: t.HTTP.Body.Arg, Members: t.HTTP.Body.Members}
		}
		return backend.Register(name, spec)
	}
	return nil
}

func (b *builder) buildMCP(h *host) error {
	cfg := h.config.MCP
	made, err := mcptool.New(mcptool.Config{
		Name: h.name, Command: config.RevealList(cfg.Command), Dir: cfg.Dir.Reveal(), Env: cfg.Env.List(os.LookupEnv),
		URL: cfg.URL.Reveal(), Headers: config.RevealMap(cfg.Headers), HTTPClient: mcpClient(cfg.AllowPrivate),
		MaxMessage: 2 * int(b.config.Limits.KeepOutputBytes), Logger: redacting(b.logger, h.secrets), Version: buildVersion().Version,
		Timing: mcptool.Timing{Connect: cfg.ConnectTimeout},
	})
	if err != nil {
		return err
	}
	h.backend = made
	h.register = func(string, config.Tool) error { return nil }
	return nil
}

// mcpClient connects only where backends may go, and never through a proxy
// that the environment happens to name.
func mcpClient(allowPrivate bool) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: backend.GuardAddresses(allowPrivate)}
	return &http.Client{Transport: &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 64, IdleConnTimeout: 4 * time.Second,
		ForceAttemptHTTP2: true, HTTP2: backend.HTTP2(),
	}}
}

// buildExec gathers the commands of the backend's declared tools: they are part
// of its construction.
func (b *builder) buildExec(h *host) error {
	commands := make(map[string]exectool.Command)
	for name, t := range b.config.Tools {
		if t.Backend != h.name || t.Exec == nil {
			continue
		}
		command := exectool.Command{Argv: config.RevealList(t.Exec.Argv), ExitCodes: make(map[int]exectool.Exit)}
		for code, meaning := range t.Exec.ExitCodes {
			command.ExitCodes[code] = exectool.Exit{
				Code: meaning.Code, Hint: meaning.Hint,
				AllowedAlternatives: meaning.AllowedAlternatives, NotExecuted: meaning.NotExecuted,
				Success: meaning.Success,
			}
		}
		commands[name] = command
	}
	made, err := exectool.New(exectool.Config{
		Name: h.name, Dir: h.config.Exec.Dir.Reveal(), Env: h.config.Exec.Env.List(os.LookupEnv), Tools: commands,
	})
	if err != nil {
		return err
	}
	h.backend = made
	h.register = func(string, config.Tool) error { return nil }
	return nil
}

// close ends what build made.
func (b *builder) close(ctx context.Context) error {
	var errs []error
	for _, h := range b.hosts {
		errs = append(errs, h.backend.Close(ctx))
	}
	return errors.Join(errs...)
}
