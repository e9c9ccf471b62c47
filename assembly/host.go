package assembly

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/sidecall/sidecall/config"
)

// kinds are all kinds of backends, by the name that the config has for them.
var kinds = map[string]kind{
	"http": {entrusted: entrustedHTTP, build: buildHTTP},
	"mcp":  {entrusted: entrustedMCP, build: buildMCP},
	"exec": {entrusted: entrustedExec, build: buildExec},
}

// host is a backend with what its tools share.
type host struct {
	built

	name   string
	config config.Backend
	guards *guards
	// secrets takes what the backend was entrusted with out of its errors; nil
	// when it was entrusted with nothing.
	secrets *strings.Replacer
	// logger takes the words of the backend, which may quote its secrets.
	logger *slog.Logger
}

// surroundings are what a generation has of the process around it.
type surroundings struct {
	logger  *slog.Logger
	version string
}

// newHost builds the backend of a name.
func newHost(name string, cfg *config.Config, around surroundings) (*host, error) {
	declared := cfg.Backends[name]
	of, ok := kinds[declared.Kind()]
	if !ok {
		return nil, fmt.Errorf("nothing here can build a backend of the kind %q", declared.Kind())
	}
	secrets := secretsOf(of.entrusted(declared))
	h := &host{
		name: name, config: declared, secrets: secrets,
		guards: newGuards(name, declared, around.logger), logger: redacting(around.logger, secrets),
	}
	var err error
	h.built, err = of.build(blueprint{
		name: name, config: declared, tools: cfg.Tools, maxOutput: int(cfg.Limits.KeepOutputBytes),
		logger: h.logger, version: around.version,
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// redact takes the secrets of the backend out of what it says.
func (h *host) redact(said string) string {
	if h.secrets == nil {
		return said
	}
	return h.secrets.Replace(said)
}
