package call_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// Reproduced: refund_all was answered with "Call refund instead".
func TestAMadeUpNameIsNeverAnsweredWithAnOrder(t *testing.T) {
	b := calltest.Answers("ok")
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.Keyed, b), calltest.NewRoute(t, "fail", tool.NonIdempotent, b))
	for _, name := range []string{"refund_all", "fs_read_text_file", "get_refund"} {
		res := s.Call(calltest.Request("toolu_"+name, name))
		if hint := res.GetError().GetHint(); calltest.Code(res) != tool.CodeUnknownTool ||
			strings.Contains(hint, "Call ") || strings.Contains(hint, "refund") || strings.Contains(hint, "fail") {
			t.Errorf("%s: %s", name, res.GetContent())
		}
	}
}

// What is named instead, be it by a rule of the config or by the likeness of its
// name, does no more harm than what failed.
func TestAlternativesAreNoStrongerThanWhatFailed(t *testing.T) {
	program, err := interpret.Compile(interpret.Config{Errors: []interpret.Rule{
		{When: "true", Code: tool.CodeNotFound, AllowedAlternatives: []string{"refund", "get_orders", "not_there_yet"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b := calltest.Answers("none")
	maps := func(r *catalog.Route) { r.Program = program }
	s := calltest.New(t, calltest.NewRoute(t, "get_order", tool.ReadOnly, b, maps), calltest.NewRoute(t, "pay", tool.NonIdempotent, b, maps),
		calltest.NewRoute(t, "get_orders", tool.ReadOnly, b), calltest.NewRoute(t, "refund", tool.NonIdempotent, b))
	for name, want := range map[string][]string{
		"get_order": {"get_orders", "not_there_yet"},
		"pay":       {"refund", "get_orders", "not_there_yet"},
	} {
		res := s.Call(calltest.Request("toolu_1_"+name, name))
		if got := res.GetRecovery().GetAllowedAlternatives(); calltest.Code(res) != tool.CodeNotFound || !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		if hint := res.GetError().GetHint(); !strings.Contains(hint, "You may call instead: "+strings.Join(want, ", ")+".") {
			t.Errorf("%s: %s", name, hint)
		}
	}
	req := calltest.Request("toolu_2", "pay")
	req.Profile = "narrow" // get_* only
	if res := s.Call(req); calltest.Code(res) != tool.CodePermissionDenied || len(res.GetRecovery().GetAllowedAlternatives()) != 0 {
		t.Errorf("get_order is nothing like pay: %v", res)
	}
}

// What may be called instead is what the caller's listener offers, also to one that
// names no profile: its first, not the default one.
func TestAlternativesAreOfTheOfferedProfile(t *testing.T) {
	program, err := interpret.Compile(interpret.Config{Errors: []interpret.Rule{
		{When: "true", Code: tool.CodeNotFound, AllowedAlternatives: []string{"list_orders", "get_orders"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b := calltest.Answers("none")
	s := calltest.New(t, calltest.NewRoute(t, "get_order", tool.ReadOnly, b, func(r *catalog.Route) { r.Program = program }),
		calltest.NewRoute(t, "get_orders", tool.ReadOnly, b), calltest.NewRoute(t, "list_orders", tool.ReadOnly, b))
	req := call.NewRequest("", calltest.Request("toolu_1", "get_order"))
	req.Offered = []string{"narrow"} // get_* only; the default has every tool
	res := s.Execute(t.Context(), req)
	if got := res.GetRecovery().GetAllowedAlternatives(); !slices.Equal(got, []string{"get_orders"}) {
		t.Errorf("%v may be called instead, want get_orders: %v", got, res)
	}
}
