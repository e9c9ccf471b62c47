package catalog_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/tool"
)

func route(backend, name string) *catalog.Route {
	return &catalog.Route{Tool: tool.Tool{Name: name, Backend: backend}}
}

func generation(routes ...*catalog.Route) *catalog.Generation {
	g := catalog.NewGeneration(catalog.Profiles{}, catalog.Limits{})
	g.Set(catalog.ConfigSource, routes)
	return g
}

// Tools of a backend that is down stay: they fail by themselves, with the right
// error.
func TestABackendThatIsDownKeepsItsTools(t *testing.T) {
	g := generation()
	g.Set("files", []*catalog.Route{route("files", "read")})
	g.SetDown("files", "it hangs")
	if s := g.Snapshot(); s.Down()["files"] != "it hangs" || len(s.Names()) != 1 {
		t.Errorf("down %v, tools %v", s.Down(), s.Names())
	}
	g.Set("files", nil)
	if s := g.Snapshot(); len(s.Down()) != 0 || len(s.Names()) != 0 {
		t.Errorf("down %v, tools %v", s.Down(), s.Names())
	}
}

// A call keeps what it has taken, whatever is discovered or swapped meanwhile.
func TestASnapshotDoesNotChange(t *testing.T) {
	g := generation(route("shop", "refund"))
	c := catalog.New(g)
	lease := c.Lease()
	defer lease.Release()
	g.Set(catalog.ConfigSource, nil)
	c.Swap(generation())
	if _, ok := lease.Lookup("refund"); !ok {
		t.Error("the call lost its tool")
	}
	if _, ok := c.Snapshot().Lookup("refund"); ok {
		t.Error("the next call still has it")
	}
}

// What a generation uses may be closed only when the last call has given its
// lease back, and no call begins on it after that.
func TestAGenerationIsRetiredWithItsLastLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := generation(route("shop", "refund"))
		c := catalog.New(old)
		first, second := c.Lease(), c.Lease()
		if before := c.Swap(generation()); before != old {
			t.Fatal("another generation was swapped out")
		}
		retired := make(chan error, 1)
		go func() { retired <- old.Retire(t.Context()) }()
		for _, lease := range []catalog.Lease{first, second} {
			synctest.Wait()
			select {
			case err := <-retired:
				t.Fatalf("retired under a call: %v", err)
			default:
			}
			lease.Release()
		}
		if err := <-retired; err != nil {
			t.Error(err)
		}
	})
}

func TestRetiringIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := generation()
		lease := catalog.New(g).Lease()
		defer lease.Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := g.Retire(ctx); !errors.Is(err, context.DeadlineExceeded) || err.Error() != "1 calls still use what was to be closed: context deadline exceeded" {
			t.Errorf("got %v", err)
		}
	})
}

// At the end of a sidecar there is no next generation: a call that comes all the
// same finds no tools, and does not wait.
func TestACatalogThatHasEnded(t *testing.T) {
	g := generation(route("shop", "refund"))
	c := catalog.New(g)
	if err := g.Retire(t.Context()); err != nil {
		t.Fatal(err)
	}
	lease := c.Lease()
	defer lease.Release()
	if len(lease.Names()) != 0 {
		t.Errorf("tools %v", lease.Names())
	}
}

// Calls and swaps in every order: no generation is retired while a call uses it.
func TestLeasesAndSwapsRace(t *testing.T) {
	type parts struct {
		closed chan struct{}
	}
	open := map[*catalog.Route]*parts{}
	next := func() (*catalog.Generation, *parts) {
		r, p := route("shop", "refund"), &parts{make(chan struct{})}
		open[r] = p
		return generation(r), p
	}
	current, its := next()
	generations := make([]*catalog.Generation, 50)
	all := make([]*parts, len(generations))
	for i := range generations {
		generations[i], all[i] = next()
	}
	c := catalog.New(current)
	var calls sync.WaitGroup
	end := make(chan struct{})
	for range 4 {
		calls.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				lease := c.Lease()
				r, _ := lease.Lookup("refund")
				select {
				case <-open[r].closed:
					t.Error("a call uses what is closed")
				default:
				}
				lease.Release()
			}
		})
	}
	for i, g := range generations {
		before := c.Swap(g)
		if err := before.Retire(t.Context()); err != nil {
			t.Error(err)
		}
		close(its.closed)
		its = all[i]
	}
	close(end)
	calls.Wait()
}

func TestProfiles(t *testing.T) {
	profiles := catalog.Profiles{Default: "narrow", ByName: map[string]catalog.Profile{
		"narrow": {Name: "narrow", Tools: []string{"get_*", "exact"}}, "all": {Name: "all", Tools: []string{"*"}},
	}}
	narrow, ok := profiles.Find("")
	if !ok || narrow.Name != "narrow" {
		t.Fatalf("got %v", narrow)
	}
	for name, want := range map[string]bool{"get_order": true, "exact": true, "exactly": false, "refund": false, output.ToolName: true} {
		if narrow.Allows(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	if _, ok := profiles.Find("none"); ok {
		t.Error("a profile that is not declared")
	}
	if names := profiles.Names(); !slices.Equal(names, []string{"all", "narrow"}) {
		t.Errorf("names %v", names)
	}
	g := catalog.NewGeneration(profiles, catalog.Limits{})
	g.Set(catalog.ConfigSource, []*catalog.Route{route("shop", "refund"), route("shop", "get_order")})
	if allowed := g.Snapshot().Routes(narrow); len(allowed) != 1 || allowed[0].Tool.Name != "get_order" {
		t.Errorf("allowed %v", allowed)
	}
}

// A lease that is shared is out until both have given it back, also when its
// generation is retired meanwhile.
func TestASharedLeaseIsOutTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := catalog.NewGeneration(catalog.Profiles{}, catalog.Limits{})
		lease := catalog.New(g).Lease()
		retired := make(chan error, 1)
		go func() { retired <- g.Retire(t.Context()) }()
		synctest.Wait()
		shared := lease.Share()
		lease.Release()
		synctest.Wait()
		if len(retired) > 0 {
			t.Error("it is retired while a lease is out")
		}
		shared.Release()
		if err := <-retired; err != nil {
			t.Error(err)
		}
	})
}
