package call_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/dedupe/memory"
	"github.com/sidecall/sidecall/testkit/calltest"
	"github.com/sidecall/sidecall/tool"
)

// unreached is a store that cannot be reached from some instant on.
type unreached struct {
	dedupe.Store
	gone atomic.Bool
}

func (s *unreached) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	if s.gone.Load() {
		return dedupe.Admission{}, errDown
	}
	return s.Store.Admit(ctx, req)
}

func (s *unreached) Note(ctx context.Context, n dedupe.Note) (dedupe.Noted, error) {
	if s.gone.Load() {
		return dedupe.Noted{}, errDown
	}
	return s.Store.Note(ctx, n)
}

// What a prompt has read stands in the store. While that cannot be asked, a sensitive
// tool is not called, though it only reads.
func TestASensitiveToolThatReadsIsNotCalledWithoutTheStore(t *testing.T) {
	t.Parallel()
	store := &unreached{Store: memory.New(memory.Options{})}
	read := calltest.Answers("the secrets")
	s := calltest.NewOn(t, store,
		calltest.NewRoute(t, "browse", tool.ReadOnly, calltest.Answers("read the secrets"), untrusted),
		calltest.NewRoute(t, "look", tool.ReadOnly, calltest.Answers("an order")),
		calltest.NewRoute(t, "secrets", tool.ReadOnly, read, sensitive))
	s.Limit(func(l *catalog.Limits) { l.Taints = true })
	s.Profile(catalog.Profile{Name: "tight", Tools: []string{"*"}})
	s.Profile(catalog.Profile{Name: "free", Tools: []string{"*"}, AllowTainted: true})
	s.Call(nth(1, "browse", orders(1)))
	store.gone.Store(true)
	if res := s.Call(nth(2, "secrets", orders(2))); calltest.Code(res) != tool.CodeStoreUnavailable || read.Calls.Load() != 0 {
		t.Errorf("after untrusted output, without the store: %v", res)
	}
	if res := s.Call(nth(3, "look", orders(3))); res.GetIsError() {
		t.Errorf("a tool that is not sensitive: %v", res)
	}
	free := nth(4, "secrets", orders(4))
	if free.Profile = "free"; s.Call(free).GetIsError() {
		t.Error("a profile that allows it is refused")
	}
}

func sensitive(r *catalog.Route) { r.Tool.Policy.RefuseTainted = true }
