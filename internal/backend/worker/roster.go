package worker

import (
	"container/list"
	"maps"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// roster is who is there, what they can do, and who waits for them. All of it is
// guarded by the mutex of its backend.
type roster struct {
	sessions map[*session]struct{}
	// known are the tools that anybody has had, by the workers' own names.
	known map[string]*known
	// waiting are the invocations without a place, the oldest first.
	waiting *list.List
	// turn counts the calls that were given places.
	turn uint64
}

// known is a tool that some worker has had.
type known struct {
	declared *declared
	admitted Admitted
	// owner is what the workers call themselves that had it last.
	owner string
}

func newRoster() roster {
	return roster{sessions: make(map[*session]struct{}), known: make(map[string]*known), waiting: list.New()}
}

// serves reports whether some worker takes a call.
func (r *roster) serves(call *backend.Invocation) bool {
	for s := range r.sessions {
		if s.takes(call) {
			return true
		}
	}
	return false
}

// place gives an invocation to the least busy worker that takes it; of several, to
// the one that has waited longest. Without a free one it is in line.
func (r *roster) place(inv *invocation) {
	var best *session
	for s := range r.sessions {
		if s.takes(&inv.call) && s.free() &&
			(best == nil || len(s.busy) < len(best.busy) || len(s.busy) == len(best.busy) && s.last < best.last) {
			best = s
		}
	}
	if best == nil {
		inv.state, inv.line = waiting, r.waiting.PushBack(inv)
		return
	}
	r.give(best, inv)
}

func (r *roster) give(s *session, inv *invocation) {
	r.turn++
	s.last = r.turn
	inv.state, inv.session = queued, s
	s.busy[inv.id] = inv
	s.say(outgoing{invoke: inv})
}

// fill gives the free places of a worker to those who wait for it.
func (r *roster) fill(s *session) {
	for e := r.waiting.Front(); e != nil && s.free(); {
		inv, next := e.Value.(*invocation), e.Next()
		if s.takes(&inv.call) {
			r.leaveLine(inv)
			r.give(s, inv)
		}
		e = next
	}
}

// leaveLine takes an invocation out of the line.
func (r *roster) leaveLine(inv *invocation) {
	if inv.line != nil {
		r.waiting.Remove(inv.line)
		inv.line = nil
	}
}

// release gives a place back, and passes it on.
func (r *roster) release(inv *invocation) {
	s := inv.session
	delete(s.busy, inv.id)
	if s.leaving && len(s.busy) == 0 {
		s.over(nil)
		return
	}
	r.fill(s)
}

// handOn gives the calls that a worker has not been sent to others; it takes no more of
// them itself.
func (r *roster) handOn(s *session) {
	for _, inv := range s.busy {
		if inv.state == queued {
			s.unsay(inv)
			delete(s.busy, inv.id)
			r.place(inv)
		}
	}
}

// dismiss lets a worker finish what it has been sent.
func (r *roster) dismiss(s *session) {
	s.leaving = true
	r.handOn(s)
	if len(s.busy) == 0 {
		s.over(nil)
	}
}

// relieve dismisses one of the workers of a name, and of a client, that were told Goodbye,
// for the one that has come, or was refused, in its place. Of several it does not matter
// which.
func (r *roster) relieve(tenant string, register *sidecallv1.WorkerRegister) {
	for s := range r.sessions {
		if s.parted && !s.leaving && s.tenant == tenant && s.name == register.GetWorker() && s.client == register.GetClient() {
			r.dismiss(s)
			return
		}
	}
}

// staying is how many workers there are that are not on their way out, and how many of
// them are of a tenant with a name.
func (r *roster) staying() (all, named int) {
	for s := range r.sessions {
		if s.stays() {
			all++
			if s.tenant != "" {
				named++
			}
		}
	}
	return all, named
}

// news is what a registration changes.
type news struct {
	// tools: there are other tools than before. first: there was no worker.
	tools, first bool
}

// with is what tools there are when a worker has come; or why it cannot.
func (r *roster) with(cfg *Config, tenant, worker string, tools []*declared) (map[string]*known, news, error) {
	if tenant != "" {
		return r.beside(cfg, tools)
	}
	if all, _ := r.staying(); all >= cfg.MaxWorkers {
		return nil, news{}, status.Errorf(codes.ResourceExhausted, "the backend %s has %d workers, as many as it may have (max_workers)", cfg.Name, cfg.MaxWorkers)
	}
	next := maps.Clone(r.known)
	changed := r.forgotten(next, worker, tools)
	for _, d := range tools {
		was := next[d.Name]
		if was != nil {
			if what := d.differs(was.declared); what != "" {
				if by := r.server(d.Name); by != nil {
					return nil, news{}, &conflict{by, d.Name, what}
				}
				was = nil
			}
		}
		if was == nil {
			changed, next[d.Name] = true, &known{declared: d, owner: worker}
		}
	}
	if len(next) > cfg.MaxTools {
		return nil, news{}, status.Errorf(codes.ResourceExhausted, "the workers of the backend %s would have %d tools, and may have %d (max_tools); those of workers that are away count",
			cfg.Name, len(next), cfg.MaxTools)
	}
	return next, news{tools: changed, first: len(r.sessions) == 0}, nil
}

// beside is with for a worker of a tenant with a name: what tools there are, and what they
// are, is said by those of the tenant without one. It takes no more than half of the places.
func (r *roster) beside(cfg *Config, tools []*declared) (map[string]*known, news, error) {
	if all, named := r.staying(); named >= max(cfg.MaxWorkers/2, 1) || all >= cfg.MaxWorkers {
		return nil, news{}, status.Errorf(codes.ResourceExhausted,
			"the backend %s has %d workers, %d of them at addresses with profiles, which may be half of max_workers (%d)", cfg.Name, all, named, cfg.MaxWorkers)
	}
	for _, d := range tools {
		if was := r.known[d.Name]; was == nil || d.differs(was.declared) != "" {
			return nil, news{}, status.Errorf(codes.PermissionDenied,
				"tool %.100q: at an address with profiles only tools are served that a worker at an address without has registered, and as that one declares them", d.Name)
		}
	}
	return maps.Clone(r.known), news{first: len(r.sessions) == 0}, nil
}

// forgotten takes out the tools that the workers of a name had, have no more, and that
// nobody serves.
func (r *roster) forgotten(from map[string]*known, worker string, tools []*declared) (some bool) {
	has := make(map[string]bool, len(tools))
	for _, d := range tools {
		has[d.Name] = true
	}
	for name, k := range from {
		if k.owner == worker && !has[name] && r.server(name) == nil {
			some = true
			delete(from, name)
		}
	}
	return some
}

// server is a worker of the tenant without a name that serves a tool; nil when there is
// none.
func (r *roster) server(target string) *session {
	for s := range r.sessions {
		if s.tenant == "" && s.stays() && s.tools[target] != nil {
			return s
		}
	}
	return nil
}

// patience is how long a call waits for a worker to come: long enough for one that has
// just ended to be there again, so that nobody notices.
const patience = 2 * time.Second

// Admitted is what a tool of a registration becomes.
type Admitted struct {
	// Name is what models call it.
	Name   string
	Effect tool.Effect
	// LeftOut: the config does not offer it.
	LeftOut bool
}
