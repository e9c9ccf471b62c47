package call_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// A refused call comes with the one to make instead, where there is only one.
func TestACorrectedCallIsReadyToBeSent(t *testing.T) {
	b := calltest.Answers("ok")
	wantsNothing := func(r *catalog.Route) {
		r.Tool.InputSchema = []byte(`{"type":"object","properties":{"what":{"type":"string"}}}`)
	}
	hides := func(r *catalog.Route) { r.Tool.Policy.Sensitive = []string{"order_id"} }
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b), calltest.NewRoute(t, "get_order", tool.ReadOnly, b),
		calltest.NewRoute(t, "show_item", tool.ReadOnly, b), calltest.NewRoute(t, "show_items", tool.ReadOnly, b),
		calltest.NewRoute(t, "get_secret", tool.ReadOnly, b, hides), calltest.NewRoute(t, "clear", tool.NonIdempotent, b, wantsNothing))
	for i, c := range []struct{ name, tool, args, wantTool, want string }{
		{"a misspelt name and a number in quotes", "refund", `{"ordr_id":"A-1","cents":"5"}`, "", `{"cents":5,"order_id":"A-1"}`},
		{"an array of one", "refund", `{"order_id":["A-1"]}`, "", `{"order_id":"A-1"}`},
		{"a missing argument", "refund", `{"cents":5}`, "", ""},
		{"an argument that nobody knows", "refund", `{"order_id":"A-1","dry_run":true}`, "", ""},
		{"no JSON", "refund", `{"order_id":`, "", ""},
		{"no JSON, for a tool that needs nothing", "clear", `{"what":`, "", ""},
		{"a secret", "get_secret", `{"order_id":["A-1"]}`, "", ""},
		{"a misspelt tool without an effect", "get_ordr", `{"order_id":"A-1"}`, "get_order", `{"order_id":"A-1"}`},
		{"both misspelt", "getOrder", `{"orderId":"A-1"}`, "get_order", `{"order_id":"A-1"}`},
		{"with arguments that do not fit it", "get_ordr", `{"order_id":5.5,"verbose":true}`, "", ""},
		{"a misspelt tool with an effect", "refnud", `{"order_id":"A-1"}`, "", ""},
		{"a tool that may be one of two", "show_itm", `{"order_id":"A-1"}`, "", ""},
		{"a tool like no other", "frobnicate", `{"order_id":"A-1"}`, "", ""},
		{"a valid call", "get_order", `{"order_id":"A-1"}`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := calltest.Request(fmt.Sprint("toolu_", i), c.tool)
			req.ArgumentsJson = c.args
			res := s.Call(req)
			calltest.CheckInvariants(t, req, res)
			recovery := res.GetRecovery()
			if recovery.GetSuggestedToolName() != c.wantTool || recovery.GetSuggestedArgumentsJson() != c.want {
				t.Fatalf("%s %s is suggested, want %s %s", recovery.GetSuggestedToolName(), recovery.GetSuggestedArgumentsJson(), c.wantTool, c.want)
			}
			if strings.Contains(res.GetContent(), "suggested") {
				t.Errorf("the content has more than its five keys: %s", res.GetContent())
			}
			if c.want == "" {
				return
			}
			again := calltest.Request(fmt.Sprint("again_", i), c.tool)
			if again.ArgumentsJson = c.want; c.wantTool != "" {
				again.ToolName = c.wantTool
			}
			if res := s.Call(again); res.GetIsError() {
				t.Errorf("the call that is suggested fails: %s", res.GetContent())
			}
		})
	}
}

// What a profile may not call is not suggested either.
func TestACorrectedCallIsOneThatTheProfileMayMake(t *testing.T) {
	b := calltest.Answers("ok")
	s := calltest.New(t, calltest.NewRoute(t, "list_orders", tool.ReadOnly, b), calltest.NewRoute(t, "get_order", tool.ReadOnly, b))
	for name, want := range map[string]string{"list_ordrs": "", "get_ordr": "get_order"} {
		req := calltest.Request("toolu_"+name, name)
		req.Profile = "narrow" // get_* only
		if got := s.Call(req).GetRecovery().GetSuggestedToolName(); got != want {
			t.Errorf("%s: %q is suggested, want %q", name, got, want)
		}
	}
}

// A batch of corrections has to fit into one response too.
func TestSuggestionsLeaveRoomForTheOthers(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "note", tool.ReadOnly, calltest.Answers("ok"), func(r *catalog.Route) {
		names := make([]string, 0, 2)
		for i := range 2 {
			names = append(names, fmt.Sprintf(`"n%d":{"enum":["%s"]}`, i, strings.Repeat("long", 3_000)))
		}
		r.Tool.InputSchema = []byte(`{"type":"object","properties":{"text":{"type":"string"},` + strings.Join(names, ",") + `},"additionalProperties":false}`)
	}))
	batch := &sidecallv1.ExecuteToolsRequest{}
	for i := range 128 {
		req := calltest.Request(fmt.Sprint("toolu_", i), "note")
		req.ArgumentsJson = `{"text":["` + strings.Repeat("x", 15<<10) + `"]}`
		if i%2 == 1 {
			req.ArgumentsJson = `{"n0":"x","n1":"x"}`
		}
		batch.Calls = append(batch.Calls, req)
	}
	results := send(t, s, batch)
	kept, left := 0, 0
	for i, res := range results {
		calltest.CheckInvariants(t, batch.GetCalls()[i], res)
		switch {
		case i%2 == 1:
		case res.GetRecovery().GetSuggestedArgumentsJson() == "":
			left++
		default:
			kept++
		}
	}
	if size := proto.Size(&sidecallv1.ExecuteToolsResponse{Results: results}); size > 4<<20 || left == 0 {
		t.Errorf("%d bytes, %d suggestions kept, %d left out", size, kept, left)
	}
}
