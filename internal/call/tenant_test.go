package call_test

import (
	"context"
	"testing"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// Whose call it is reaches a backend as fields: alone, in a batch, and when another tool
// is asked what became of it.
func TestTheTenantOfACallReachesTheBackend(t *testing.T) {
	var got []backend.Invocation
	notes := func(reply func() (tool.Reply, *tool.Failure)) *calltest.Backend {
		return &calltest.Backend{Do: func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
			got = append(got, in)
			return reply()
		}}
	}
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, notes(func() (tool.Reply, *tool.Failure) {
		return tool.Reply{Text: []byte("ok")}, nil
	})))
	of := func(tenant, conversation, id string) call.Request {
		req := calltest.Request(id, "refund")
		req.ConversationId = conversation
		return call.NewRequest(tenant, req)
	}
	s.Execute(t.Context(), of("acme", "c1", "1"))
	s.ExecuteBatch(t.Context(), []call.Request{of("acme", "c2", "2")})
	s.Execute(t.Context(), of("other", "c1", "1")) // the same ids of somebody else: another call
	want := [][4]string{{"acme", "c1", "t1", "1"}, {"acme", "c2", "t1", "2"}, {"other", "c1", "t1", "1"}}
	if len(got) != len(want) {
		t.Fatalf("%d invocations, want %d", len(got), len(want))
	}
	for i, in := range got {
		if is := [4]string{in.Tenant, in.Conversation, in.Turn, in.ID}; is != want[i] {
			t.Errorf("invocation %d is of %q, want %q", i, is, want[i])
		}
	}
}

// The tool that verifies a call is asked for the same tenant and conversation.
func TestTheTenantOfACallReachesItsVerification(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var asked []backend.Invocation
		up := &shop{happens: true}
		up.look = func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
			asked = append(asked, in)
			return tool.Reply{Text: []byte(`{"refunds":[]}`), JSON: true}, nil
		}
		s := up.sidecar(t)
		s.Execute(t.Context(), call.NewRequest("acme", calltest.Request("toolu_1", "refund")))
		if len(asked) != 1 || asked[0].Tenant != "acme" || asked[0].Conversation != "c1" {
			t.Errorf("asked by %+v", asked)
		}
	})
}
