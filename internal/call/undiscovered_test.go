package call_test

import (
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// A name that may be of a backend whose tools are not known yet is no unknown tool: the
// model would be told to call another one.
func TestAToolThatIsStillToCome(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "get_order", tool.ReadOnly, calltest.Answers("ok")))
	s.Generation.Expect("files", catalog.Undiscovered{Prefix: "files_"})
	res := s.Call(calltest.Request("toolu_1", "files_read"))
	if calltest.Code(res) != tool.CodeDependencyUnavailable || res.GetRecovery().GetRetryAfter().AsDuration() != explain.WhenUndiscovered || !res.GetRecovery().GetRetryable() {
		t.Fatalf("got %v", res)
	}
	if e := res.GetError(); !strings.Contains(e.GetConstraint(), "the backend files,") || !strings.Contains(e.GetHint(), "Call files_read again after 2s") {
		t.Errorf("it says %v", e)
	}
	if res := s.Call(calltest.Request("toolu_2", "get_ordre")); calltest.Code(res) != tool.CodeUnknownTool {
		t.Errorf("a name that cannot be of files: %v", res)
	}
	narrow := calltest.Request("toolu_3", "files_read")
	narrow.Profile = "narrow"
	if res := s.Call(narrow); calltest.Code(res) != tool.CodeUnknownTool {
		t.Errorf("one that the profile would not allow: %v", res)
	}
	listed, err := service(s).ListTools(t.Context(), &sidecallv1.ListToolsRequest{})
	if down := listed.GetUnavailableBackends(); err != nil || len(down) != 1 || down[0].GetName() != "files" || !down[0].GetUndiscovered() || down[0].GetReason() == "" {
		t.Errorf("listed %v, %v", listed.GetUnavailableBackends(), err)
	}

	s.Generation.Set("files", []*catalog.Route{calltest.NewRoute(t, "files_read", tool.ReadOnly, calltest.Answers("text"))})
	if res := s.Call(calltest.Request("toolu_1", "files_read")); res.GetIsError() || res.GetContent() != "text" {
		t.Errorf("when it is there: %v", res)
	}
	if res := s.Call(calltest.Request("toolu_4", "files_raed")); calltest.Code(res) != tool.CodeUnknownTool {
		t.Errorf("a name that it turned out not to have: %v", res)
	}
	s.Generation.SetDown("files", "it exits")
	listed, err = service(s).ListTools(t.Context(), &sidecallv1.ListToolsRequest{})
	if down := listed.GetUnavailableBackends(); err != nil || len(down) != 1 || down[0].GetUndiscovered() {
		t.Errorf("down again, listed %v, %v", listed.GetUnavailableBackends(), err)
	}
}
