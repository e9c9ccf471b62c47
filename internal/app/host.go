package app

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/redact"
)

// kinds are all kinds of backends, by the name that the config has for them.
var kinds = map[string]kind{
	"http": {entrusted: entrustedHTTP, build: buildHTTP, again: httpAgain, files: httpFiles},
	"mcp":  {entrusted: entrustedMCP, build: buildMCP, again: itself},
	"exec": {entrusted: entrustedExec, build: buildExec},

	"worker": {entrusted: entrustedWorker, build: buildWorker, again: itself},
}

// itself is for backends that keep nothing of their declared tools.
func itself(kept built) built { return kept }

// host is a backend with what its tools share, as one generation has it.
type host struct {
	built
	*premises

	name       string
	config     config.Backend
	protection *protection
	// secrets takes what must not be shown out of what the backend says and
	// returns; nil when there is nothing.
	secrets *redact.Set
	// brought: see Brought.
	brought bool
	// mask has references in the place of what they stand for in what is said of it.
	mask mask
}

// surroundings are what a generation has of the process around it.
type surroundings struct {
	logger  *slog.Logger
	version string
	// secrets are those that no tool may show.
	secrets []string
	// late counts the results of workers that come too late; nil where nobody asks.
	late *atomic.Int64
	// brought are the backends that are there already.
	brought map[string]backend.Backend
	// before is the generation that this one is to take over from; nil for the first.
	before *generation
}

// newHost builds the backend of a name.
func newHost(name string, cfg *config.Config, around surroundings) (*host, error) {
	declared := cfg.Backends[name]
	of, ok := kinds[declared.Kind()]
	if !ok {
		return nil, fmt.Errorf("nothing here can build a backend of the kind %q", declared.Kind())
	}
	hidden := secrets{known: around.secrets, literal: secretsOf(of.entrusted(declared)).literal}.set()
	h := &host{name: name, config: declared, secrets: hidden, mask: maskAt(cfg, "backends."+name)}
	around.logger = masking(around.logger, cfg, h.mask)
	at := siteOf(declared, of, cfg, around)
	if before := around.before.host(name); before != nil && before.site.same(at) {
		h.stayAt(before, of)
	}
	if h.protection == nil {
		h.protection = newProtection(name, declared, around.logger)
	}
	if h.premises != nil {
		return h, nil
	}
	h.premises = newPremises(at, around.logger, hidden)
	var err error
	if made := around.brought[name]; made != nil {
		h.built, h.brought = built{made, nothingToRegister}, true
		h.premises.first = h.built
		return h, nil
	}
	h.built, err = of.build(blueprint{
		name: name, config: declared, dir: cfg.Dir, tools: cfg.Tools, maxOutput: int(cfg.Limits.KeepOutputBytes), maxRequest: int64(cfg.Limits.MaxRequestBytes), late: around.late,
		logger: h.logger, version: around.version,
	})
	if err != nil {
		return nil, err
	}
	h.premises.first = h.built
	return h, nil
}

// stayAt has the host take over what the generation before has of its backend, which is
// the same: the connections where they can be shared, and its protection where that is the same.
func (h *host) stayAt(before *host, of kind) {
	if sameProtection(before.config, h.config) {
		h.protection = before.protection
	}
	if of.again != nil && before.premises.enter() {
		h.premises, h.built = before.premises, of.again(before.premises.first)
	}
}
