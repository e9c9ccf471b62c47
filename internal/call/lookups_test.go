package call_test

import (
	"fmt"
	"testing"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// lookups is a catalog that counts who looks into it. Each of them finds a new
// generation, so that a call that looked twice would see two.
type lookups struct {
	*catalog.Catalog

	next              func() *catalog.Generation
	leases, snapshots int
}

func (l *lookups) Lease() catalog.Lease {
	l.leases++
	l.Swap(l.next())
	return l.Catalog.Lease()
}

func (l *lookups) Snapshot() *catalog.Snapshot {
	l.snapshots++
	l.Swap(l.next())
	return l.Catalog.Snapshot()
}

// counted gives a sidecar a catalog that counts.
func counted(s *calltest.Sidecar) *lookups {
	before := s.Catalog.Snapshot()
	tools := &lookups{Catalog: s.Catalog, next: func() *catalog.Generation {
		g := catalog.NewGeneration(before.Profiles, before.Limits)
		g.Advise(before.Advice)
		g.Set(catalog.ConfigSource, before.Routes(before.Profiles.ByName["all"]))
		return g
	}}
	s.With(func(p *call.Parts) { p.Catalog = tools })
	return tools
}

// wantLookups compares with what was counted since the last time.
func (l *lookups) wantLookups(t *testing.T, leases, snapshots int) {
	t.Helper()
	if l.leases != leases || l.snapshots != snapshots {
		t.Errorf("%d leases and %d other looks, want %d and %d", l.leases, l.snapshots, leases, snapshots)
	}
	l.leases, l.snapshots = 0, 0
}

// From the ids that it must have to what verifies it, a call is told all by one
// lease, which its RPC takes.
func TestACallIsLookedUpOnce(t *testing.T) {
	s := calltest.New(t,
		calltest.NewRoute(t, "get_order", tool.ReadOnly, calltest.Answers("ok")),
		calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("ok")),
		calltest.NewRoute(t, "get_gone", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.NotFound)),
		calltest.NewRoute(t, "charge", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.TimedOut)),
	)
	tools := counted(s)
	for i, name := range []string{"get_order", "refund", "get_gone", "charge", "no_such_tool"} {
		for _, what := range []string{"first", "again"} {
			t.Run(name+", "+what, func(t *testing.T) {
				if _, err := service(s).ExecuteTool(t.Context(), calltest.Request(fmt.Sprint("toolu_", i), name)); err != nil {
					t.Error(err)
				}
				tools.wantLookups(t, 1, 0)
			})
		}
	}
	t.Run("arguments that break the schema", func(t *testing.T) {
		req := calltest.Request("toolu_wrong", "refund")
		req.ArgumentsJson = `{}`
		if res, err := service(s).ExecuteTool(t.Context(), req); err != nil || calltest.Code(res) != tool.CodeInvalidArgs {
			t.Error(res, err)
		}
		tools.wantLookups(t, 1, 0)
	})
	t.Run("a call without an id that it must have", func(t *testing.T) {
		req := calltest.Request("toolu_nameless", "refund")
		req.ConversationId = ""
		if res, err := service(s).ExecuteTool(t.Context(), req); err == nil {
			t.Error(res)
		}
		tools.wantLookups(t, 1, 0)
	})
	t.Run("a batch", func(t *testing.T) {
		batch := &sidecallv1.ExecuteToolsRequest{}
		for i := range 5 {
			batch.Calls = append(batch.Calls, calltest.Request(fmt.Sprint("toolu_in_batch_", i), "refund"))
		}
		if res, err := service(s).ExecuteTools(t.Context(), batch); err != nil || len(res.GetResults()) != 5 || res.GetResults()[4].GetIsError() {
			t.Error(res, err)
		}
		tools.wantLookups(t, 1, 0)
	})
}

// Of a call whose answer was lost the tool that verifies it is that of its own lease.
func TestAVerifiedCallIsLookedUpOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up := &shop{happens: true}
		s := up.sidecar(t)
		tools := counted(s)
		if res, err := service(s).ExecuteTool(t.Context(), calltest.Request("toolu_1", "refund")); err != nil || res.GetIsError() || up.looks.Load() != 1 {
			t.Errorf("%v, %v, %d looks", res, err, up.looks.Load())
		}
		tools.wantLookups(t, 1, 0)
	})
}

// What may have had its effect is sent again only while its tool may be repeated, also
// by what is declared since: that is asked before each repetition, and changes nothing
// else of the call.
func TestARepetitionLooksWhetherItStillMayBe(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "put", tool.Idempotent, calltest.Fails(2, calltest.CutOff)))
	tools := counted(s)
	if res, err := service(s).ExecuteTool(t.Context(), calltest.Request("toolu_1", "put")); err != nil || res.GetIsError() {
		t.Error(res, err)
	}
	tools.wantLookups(t, 1, 2)
}
