package worker

import (
	"errors"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Adopt has another config count from now on: for who registers, and for the workers
// that are there. One that was told something else of itself or of a tool is told
// Goodbye. It registers again, and is told then how it is now; until it has, or was
// refused, it goes on with its calls and with those that still come. A tool that cannot
// be used any more is forgotten until it is registered again.
func (b *Backend) Adopt(cfg Config, examine Examiner) {
	b.registering <- struct{}{}
	defer func() { <-b.registering }()
	was, now := b.cfg(), cfg.withDefaults()
	b.settings.Store(&now)
	b.examine = examine
	b.mu.Lock()
	before := b.roster.known
	b.mu.Unlock()
	next := b.examinedAnew(before)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roster.known = next
	count := 0
	for s := range b.roster.sessions {
		if s.stays() && (was.Heartbeat != now.Heartbeat || was.MaxInFlight != now.MaxInFlight || s.toldOtherwise(before, next)) {
			count++
			s.part()
		}
	}
	if count > 0 {
		b.log.Info("workers are told to register again: the config says something else of them", "workers", count)
	}
}

// examinedAnew is what becomes of the tools that are known. When not all of them can be
// used, those are left out of which it is the fault.
func (b *Backend) examinedAnew(tools map[string]*known) map[string]*known {
	next := maps.Clone(tools)
	if b.examine.admit(next, discovered(next)) == nil {
		return next
	}
	for name := range tools {
		alone := map[string]*known{name: next[name]}
		if err := b.examine.admit(alone, discovered(alone)); err != nil {
			b.log.Warn("a tool of workers cannot be used any more", "tool", name, "error", err)
			delete(next, name)
		}
	}
	if err := b.examine.admit(next, discovered(next)); err != nil {
		b.log.Warn("the tools of the workers cannot be used any more", "error", err)
		clear(next)
	}
	if b.update != nil {
		b.update(discovered(next), nil)
		if b.Workers() == 0 {
			b.update(nil, errNobody)
		}
	}
	return next
}

// toldOtherwise reports whether a worker was told something else of one of its tools.
func (s *session) toldOtherwise(before, now map[string]*known) bool {
	for name := range s.tools {
		if now[name] == nil || before[name] == nil || before[name].admitted != now[name].admitted {
			return true
		}
	}
	return false
}

// lasting are the statuses after which the clients do not come again.
var lasting = []codes.Code{
	codes.InvalidArgument, codes.AlreadyExists, codes.NotFound, codes.FailedPrecondition,
	codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated,
}

// Refuse says why a registration does not even come to the backend. A worker that was
// told Goodbye and cannot come again finishes what it has, and its stream ends; one that
// comes again goes on meanwhile.
func (b *Backend) Refuse(tenant string, register *sidecallv1.WorkerRegister, why error) {
	if !slices.Contains(lasting, status.Code(why)) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roster.relieve(tenant, register)
}

// discovered are the tools by name.
func discovered(tools map[string]*known) []tool.Discovered {
	found := make([]tool.Discovered, 0, len(tools))
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		found = append(found, tools[name].declared.found())
	}
	return found
}

// admit has all tools looked at, and notes what they become.
func (e Examiner) admit(next map[string]*known, found []tool.Discovered) error {
	if e == nil {
		return nil
	}
	admitted, err := e(found)
	if taken, ok := errors.AsType[*TakenError](err); ok {
		return status.Error(codes.AlreadyExists, clipped(taken.Error()))
	}
	if err != nil {
		return status.Error(codes.InvalidArgument, clipped(err.Error()))
	}
	for i, f := range found {
		made := *next[f.Name] // of the tools that were there others have a hold
		made.admitted = admitted[i]
		next[f.Name] = &made
	}
	return nil
}
