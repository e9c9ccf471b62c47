package app

import (
	"cmp"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/conn"
	"github.com/sidecall/sidecall/internal/backend/mcptool"
	"github.com/sidecall/sidecall/internal/config"
)

func entrustedMCP(cfg config.Backend) entrusted {
	return entrusted{
		values: []map[string]config.Secret{cfg.MCP.Headers, cfg.MCP.Env.Set},
		texts:  append(slices.Clone(cfg.MCP.Command), cfg.MCP.URL),
		passed: cfg.MCP.Env.Pass,
	}
}

func buildMCP(b blueprint) (built, error) {
	cfg := b.config.MCP
	user, err := userOf(cfg.RunAs)
	if err != nil {
		return built{}, err
	}
	made, err := mcptool.New(mcptool.Config{
		Name: b.name, Command: config.RevealList(cfg.Command), Dir: cmp.Or(cfg.Dir.Reveal(), b.dir), Env: cfg.Env.List(os.LookupEnv), User: user,
		URL: cfg.URL.Reveal(), Headers: config.RevealMap(cfg.Headers), HTTPClient: mcpClient(cfg.AllowPrivate),
		MaxMessage: 2 * b.maxOutput, Logger: b.logger, Version: b.version, Protocol: cfg.Protocol, HandsOn: cfg.HandsOn,
		Timing: mcptool.Timing{Connect: cfg.ConnectTimeout},
	})
	if err != nil {
		return built{}, err
	}
	return built{made, nothingToRegister}, nil
}

// maxMCPHeader bounds the header of an answer, in bytes. Go would take 10 MiB for each
// of the calls in flight, which nobody counts.
const maxMCPHeader = 64 << 10

// mcpClient connects only where backends may go, and never through a proxy
// that the environment happens to name.
func mcpClient(allowPrivate bool) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: backend.GuardAddresses(allowPrivate)}
	return &http.Client{Transport: &http.Transport{
		DialContext: conn.NewSet().Dialer(dialer.DialContext), TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 64, IdleConnTimeout: 4 * time.Second,
		MaxResponseHeaderBytes: maxMCPHeader,
		ForceAttemptHTTP2:      true, HTTP2: backend.HTTP2(),
	}}
}
