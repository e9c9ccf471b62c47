package app

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/redact"
	"github.com/sidecall/sidecall/internal/tool"
)

// premises are what the hosts of one backend share over the generations for which the
// config says the same of it: its connections or process, and what it said of its tools
// last. They are given up with the last generation that has them.
type premises struct {
	site site
	// first is the backend as it was built. Whoever closes it closes it for all.
	first built
	// logger takes the words of the backend, which may quote its secrets: live has
	// those of the generation that is served.
	logger *slog.Logger
	live   *liveSecrets

	users atomic.Int32 // generations

	// running is the discovery, which ends with end.
	running sync.WaitGroup
	end     context.CancelFunc
	// found is closed when the backend has said for the first time which tools it has.
	found chan struct{}

	// mu keeps what is said and who hears it in one order. It guards all below.
	mu     sync.Mutex
	hears  func(tools []tool.Discovered, err error)
	tools  []tool.Discovered // as last said, once found is closed
	broken error             // why it is down; nil when it is not

	// lost says that the backend was heard of last when it went down; unpinned that nothing of what
	// it said last was written down yet.
	lost, unpinned bool
	// pinned tells the calls of its tools that may be called when they may not be any
	// more, where it is pinned, by its own names for them.
	pinned map[string]*catalog.Withdrawal
}

func newPremises(at site, logger *slog.Logger, hidden *redact.Set) *premises {
	p := &premises{site: at, live: liveFrom(hidden), found: make(chan struct{})}
	p.logger = redacting(logger, p.live)
	p.users.Store(1)
	return p
}

// site is all that a backend is built from beside its tools.
type site struct {
	backend   config.Backend
	maxOutput config.Bytes
	files     string // a hash of what is in them
	version   string
}

func siteOf(b config.Backend, of kind, cfg *config.Config, around surroundings) site {
	s := site{backend: b.Place(), version: around.version} // which knows nothing of protection, and of what is said of tools
	if b.Worker != nil {
		s.backend = config.Backend{Worker: &config.WorkerBackend{}} // what the config says of it they are told
	}
	if b.MCP != nil {
		s.maxOutput = cfg.Limits.KeepOutputBytes
	}
	if of.files != nil {
		s.files = config.Digest(of.files(b)...)
	}
	return s
}

func (s site) same(other site) bool {
	return s.maxOutput == other.maxOutput && s.files == other.files && s.version == other.version &&
		config.Same(s.backend, other.backend)
}

// enter counts one more generation in; false when the last one has left.
func (p *premises) enter() bool {
	for {
		users := p.users.Load()
		if users == 0 {
			return false
		}
		if p.users.CompareAndSwap(users, users+1) {
			return true
		}
	}
}

// leave counts a generation out. The last one ends the discovery and closes the
// backend; calls that still use it when ctx ends are told in the error, and lose it.
func (h *host) leave(ctx context.Context) error {
	if h.premises == nil {
		return h.Close(ctx)
	}
	if h.users.Add(-1) > 0 {
		return nil
	}
	h.silence()
	err := h.Close(ctx)
	h.running.Wait()
	return err
}

// discover begins the discovery of the backend. It is called once for all hosts.
func (h *host) discover(hears func(tools []tool.Discovered, err error)) {
	ctx, end := context.WithCancel(context.Background())
	h.end, h.hears = end, hears
	discoverer := h.Backend.(backend.Discoverer) //nolint:forcetypeassert // who has none is not asked
	h.running.Go(func() { discoverer.Run(ctx, h.say) })
}

// silence asks for the end of the discovery.
func (p *premises) silence() {
	if p.end != nil {
		p.end()
	}
}

// say passes on what the backend says, and keeps it for who hears it later.
func (p *premises) say(tools []tool.Discovered, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken = err; err == nil {
		p.tools = tools
	}
	p.hears(tools, err)
	if err == nil && !p.wasFound() { // only now: who waits for the tools wants to call them
		close(p.found)
	}
}

// wasFound reports whether it was ever known which tools there are.
func (p *premises) wasFound() bool {
	select {
	case <-p.found:
		return true
	default:
		return false
	}
}

// pinNow has a list heard again of which something is to be written down now.
func (p *premises) pinNow(hears func(tools []tool.Discovered, err error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unpinned && p.broken == nil { // else it is heard anew when it is there again
		hears(p.tools, nil)
	}
}

// tellInstead has somebody else hear what the backend says, and first what it has said
// last. Nothing is missed, and nothing is heard by both.
func (p *premises) tellInstead(hears func(tools []tool.Discovered, err error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hears = hears
	if p.wasFound() {
		p.lost = false // what follows is known already, and no sign that it is back
		hears(p.tools, nil)
	}
	if p.broken != nil {
		hears(nil, p.broken)
	}
}
