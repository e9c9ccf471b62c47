package assembly

import (
	"fmt"
	"log/slog"

	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/config"
	"github.com/sidecall/sidecall/redact"
)

// kinds are all kinds of backends, by the name that the config has for them.
var kinds = map[string]kind{
	"http": {entrusted: entrustedHTTP, build: buildHTTP},
	"mcp":  {entrusted: entrustedMCP, build: buildMCP},
	"exec": {entrusted: entrustedExec, build: buildExec},

	"worker": {entrusted: entrustedWorker, build: buildWorker},
}

// host is a backend with what its tools share.
type host struct {
	built

	name   string
	config config.Backend
	guards *guards
	// secrets takes what must not be shown out of what the backend says and
	// returns; nil when there is nothing.
	secrets *redact.Set
	// logger takes the words of the backend, which may quote its secrets.
	logger *slog.Logger
	// lost says that the backend was heard of last when it went down. It is the
	// discovery's.
	lost bool
	// pinned tells the calls of its tools that may be called when they may not be any
	// more, where it is pinned. It is the discovery's too.
	pinned map[string]*catalog.Withdrawal
}

// surroundings are what a generation has of the process around it.
type surroundings struct {
	logger  *slog.Logger
	version string
	// secrets are those that no tool may show.
	secrets []string
}

// newHost builds the backend of a name.
func newHost(name string, cfg *config.Config, around surroundings) (*host, error) {
	declared := cfg.Backends[name]
	of, ok := kinds[declared.Kind()]
	if !ok {
		return nil, fmt.Errorf("nothing here can build a backend of the kind %q", declared.Kind())
	}
	hidden := secrets{known: around.secrets, literal: secretsOf(of.entrusted(declared)).literal}.set()
	h := &host{
		name: name, config: declared, secrets: hidden,
		guards: newGuards(name, declared, around.logger), logger: redacting(around.logger, hidden),
	}
	var err error
	h.built, err = of.build(blueprint{
		name: name, config: declared, tools: cfg.Tools, maxOutput: int(cfg.Limits.KeepOutputBytes), maxRequest: int64(cfg.Limits.MaxRequestBytes),
		logger: h.logger, version: around.version,
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}
