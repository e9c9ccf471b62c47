package call_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/builtin"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/test/testkit/calltest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// withReadOutput registers the built-in tool beside the others.
func withReadOutput(t *testing.T, s *calltest.Sidecar, others ...*catalog.Route) {
	t.Helper()
	made := output.Tool()
	compiled, err := schema.Compile(made.Name, made.InputSchema, schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	program, err := interpret.Compile(interpret.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s.Generation.Set(catalog.ConfigSource, append(others, &catalog.Route{
		Tool: made, Schema: compiled, Program: program, Backend: builtin.NewReadOutput(result.Outputs{Dedupe: s.Dedupe}), Target: made.Name,
	}))
}

func bigText() string {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "line %d: nothing to see here\n", i)
	}
	return b.String()
}

// A cut result sends the model to read_output, so every profile may call it.
func TestANarrowProfileReadsWhatWasCut(t *testing.T) {
	s := calltest.New(t)
	withReadOutput(t, s, calltest.NewRoute(t, "get_log", tool.ReadOnly, calltest.Answers(bigText())), calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("ok")))
	req := calltest.Request("toolu_1", "get_log")
	req.Profile = "narrow"
	ref := s.Call(req).GetTruncation().GetOutputRef()
	if ref == "" {
		t.Fatal("nothing was cut")
	}
	read := calltest.Request("toolu_2", output.ToolName)
	read.Profile, read.ArgumentsJson = "narrow", fmt.Sprintf(`{"output_ref":%q}`, ref)
	if res := s.Call(read); res.GetIsError() || !strings.Contains(res.GetContent(), "line 0:") {
		t.Errorf("read_output got %s", res.GetContent())
	}
	list, err := service(s).ListTools(t.Context(), &sidecallv1.ListToolsRequest{Profile: "narrow"})
	if err != nil || len(list.GetTools()) != 2 || list.GetTools()[1].GetName() != output.ToolName {
		t.Errorf("listed %v, %v", list.GetTools(), err)
	}
}

func TestACutOutputCanBeReadToItsEnd(t *testing.T) {
	text := bigText()
	s := calltest.New(t)
	withReadOutput(t, s, calltest.NewRoute(t, "get_log", tool.ReadOnly, calltest.Answers(text)))
	res := s.Call(calltest.Request("toolu_1", "get_log"))
	cut := res.GetTruncation()
	if len([]rune(res.GetContent())) > 8000 || cut.GetOutputRef() == "" || cut.GetOriginalChars() != int64(len(text)) {
		t.Fatalf("%d characters, %v", len([]rune(res.GetContent())), cut)
	}
	if !strings.Contains(res.GetContent(), cut.GetOutputRef()) || !strings.Contains(res.GetContent(), "read_output") {
		t.Error("the notice does not say how to get the rest")
	}
	var whole strings.Builder
	for offset := int64(0); offset < cut.GetOriginalChars(); {
		page, err := service(s).ReadOutput(t.Context(), &sidecallv1.ReadOutputRequest{OutputRef: cut.GetOutputRef(), ConversationId: "c1", Offset: offset, Limit: 7001})
		if err != nil {
			t.Fatal(err)
		}
		if !page.GetComplete() || page.GetNextOffset() <= offset {
			t.Fatalf("complete %v, from %d to %d", page.GetComplete(), offset, page.GetNextOffset())
		}
		whole.WriteString(page.GetContent())
		offset = page.GetNextOffset()
	}
	if whole.String() != text {
		t.Error("the pages are not the whole")
	}
}

// What a call has returned is read in its own conversation, with its handle from a
// cut result or from one that did not fit beside others: a handle that a model has
// found elsewhere, or made up, opens nothing.
func TestAnOutputIsItsConversationsOwn(t *testing.T) {
	s := calltest.New(t)
	withReadOutput(t, s, calltest.NewRoute(t, "get_log", tool.ReadOnly, calltest.Answers(bigText())),
		calltest.NewRoute(t, "draw", tool.ReadOnly, &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
			return tool.Reply{Blocks: []tool.Block{{Type: "image", MIMEType: "image/png", Data: make([]byte, 2<<20)}}}, nil
		}}))
	cut := s.Call(calltest.Request("toolu_1", "get_log")).GetTruncation().GetOutputRef()
	two := s.ExecuteBatch(t.Context(), []call.Request{
		call.NewRequest("", calltest.Request("toolu_2", "draw")), call.NewRequest("", calltest.Request("toolu_3", "draw")),
	})
	recorded := two[0].GetBlocks()[0].GetOutputRef() + two[1].GetBlocks()[0].GetOutputRef() // of one of them
	if !strings.HasPrefix(cut, "out_") || !strings.HasPrefix(recorded, "rec_") {
		t.Fatalf("%q, %q", cut, recorded)
	}
	for _, ref := range []string{cut, recorded} {
		for conversation, want := range map[string]codes.Code{"c1": codes.OK, "": codes.NotFound, "c2": codes.NotFound} {
			_, err := service(s).ReadOutput(t.Context(), &sidecallv1.ReadOutputRequest{OutputRef: ref, ConversationId: conversation})
			if status.Code(err) != want || err != nil && !strings.Contains(err.Error(), "conversation_id") {
				t.Errorf("%.8s in the conversation %q: %v", ref, conversation, err)
			}
			read := calltest.Request("toolu_4"+ref[:3], output.ToolName)
			read.ConversationId, read.ArgumentsJson = conversation, fmt.Sprintf(`{"output_ref":%q}`, ref)
			if conversation == "" {
				continue // a call has one
			}
			if res := s.Call(read); res.GetIsError() != (want != codes.OK) || res.GetIsError() && calltest.Code(res) != tool.CodeNotFound {
				t.Errorf("%.8s read in the conversation %q: %s", ref, conversation, res.GetContent())
			}
		}
	}
}

// A handle that was not given out in a conversation is none of its.
func TestAHandleThatWasMadeUp(t *testing.T) {
	ref := output.NewRef("c1")
	if !output.IsOf(ref, "c1") {
		t.Errorf("%s is not the conversation's", ref)
	}
	for _, changed := range []string{"out_" + rand.Text(), ref[:len(ref)-8] + "AAAAAAAA", ref[:8] + "A" + ref[9:] + "A", ref[:20]} {
		if output.IsOf(changed, "c1") {
			t.Errorf("%s, made of %s, is taken for one of the conversation", changed, ref)
		}
	}
}

func TestTheModelPagesWithReadOutput(t *testing.T) {
	s := calltest.New(t)
	withReadOutput(t, s, calltest.NewRoute(t, "get_log", tool.ReadOnly, calltest.Answers(bigText())))
	ref := s.Call(calltest.Request("toolu_1", "get_log")).GetTruncation().GetOutputRef()
	read := func(id string, arguments map[string]any) *sidecallv1.ExecuteToolResponse {
		arguments["output_ref"] = ref
		encoded, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		req := calltest.Request(id, "read_output")
		req.ArgumentsJson = string(encoded)
		return s.Call(req)
	}
	page := read("toolu_2", map[string]any{"offset": 50_000})
	if page.GetIsError() || page.GetTruncation() != nil || !strings.Contains(page.GetContent(), "offset") {
		t.Errorf("a page is cut, or does not say how to go on: %v\n%s", page.GetTruncation(), page.GetContent())
	}
	found := read("toolu_3", map[string]any{"pattern": `line 4321\b`})
	if !strings.Contains(found.GetContent(), "line 4321: nothing") || strings.Contains(found.GetContent(), "line 4322") {
		t.Errorf("searched: %s", found.GetContent())
	}
	for id, arguments := range map[string]map[string]any{
		"toolu_4": {"offset": 10_000_000}, "toolu_5": {"pattern": "("}, "toolu_6": {"offset": -1},
	} {
		if res := read(id, arguments); calltest.Code(res) != tool.CodeInvalidArgs || res.GetError().GetField() == "" {
			t.Errorf("%v: %s", arguments, res.GetContent())
		}
	}
	ref = "out_nosuch"
	if res := read("toolu_7", map[string]any{}); calltest.Code(res) != tool.CodeNotFound || res.GetError().GetField() != "output_ref" {
		t.Errorf("got %s", res.GetContent())
	}
}

func TestReadOutputRefusesWhatItDoesNotHave(t *testing.T) {
	s := calltest.New(t)
	for want, req := range map[codes.Code]*sidecallv1.ReadOutputRequest{
		codes.InvalidArgument: {}, codes.NotFound: {OutputRef: "out_nosuch"},
	} {
		if _, err := service(s).ReadOutput(t.Context(), req); status.Code(err) != want {
			t.Errorf("%v: %v", req, err)
		}
	}
	down := calltest.NewOn(t, brokenStore{})
	if _, err := service(down).ReadOutput(t.Context(), &sidecallv1.ReadOutputRequest{OutputRef: output.NewRef("")}); status.Code(err) != codes.Unavailable {
		t.Errorf("the store is down: %v", err)
	}
}

func TestGetExecutionTellsWhetherItRan(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Fails(1, calltest.CutOff)), calltest.NewRoute(t, "get_order", tool.ReadOnly, calltest.Answers("ok")))
	s.Call(calltest.Request("toolu_1", "refund"))
	s.Call(calltest.Request("toolu_2", "get_order"))
	get := func(id string) (*sidecallv1.Execution, error) {
		return service(s).GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: id})
	}
	unknown, err := get("toolu_1")
	if err != nil || unknown.GetState() != sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN || unknown.GetAttempts() != 1 ||
		unknown.GetToolName() != "refund" || unknown.GetResult().GetError().GetCode() != "OUTCOME_UNKNOWN" {
		t.Errorf("%v, %v", unknown, err)
	}
	done, err := get("toolu_2")
	if err != nil || done.GetState() != sidecallv1.ExecutionState_EXECUTION_STATE_DONE || done.GetResult().GetContent() != "ok" ||
		done.GetFinishedAt() == nil || done.GetStartedAt() == nil {
		t.Errorf("%v, %v", done, err)
	}
	if _, err := get("toolu_3"); status.Code(err) != codes.NotFound {
		t.Errorf("never sent: %v", err)
	}
	if _, err := get(""); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no id: %v", err)
	}
}

// A search finds what the preview shows, spelled as it is there, and says when nothing
// matches.
func TestASearchIsInTheTextThatIsShown(t *testing.T) {
	items := make([]map[string]any, 400)
	for i := range items {
		items[i] = map[string]any{"id": i, "status": "open", "note": strings.Repeat("x", 40)}
	}
	text, err := json.MarshalIndent(map[string]any{"items": items}, "", "    ")
	if err != nil {
		t.Fatal(err)
	}
	s := calltest.New(t)
	withReadOutput(t, s, calltest.NewRoute(t, "get_orders", tool.ReadOnly, calltest.Answers(string(text))))
	res := s.Call(calltest.Request("toolu_1", "get_orders"))
	const seen = `"id":0,"note":`
	if !strings.Contains(res.GetContent(), seen) {
		t.Fatalf("it shows %s", res.GetContent())
	}
	for i, c := range []struct{ pattern, want string }{
		{seen, seen}, {`"id":399,`, `"id":399,`}, {"nosuchthing", "[nothing matches up to the end"},
	} {
		read := calltest.Request(fmt.Sprintf("toolu_2%d", i), output.ToolName)
		read.ArgumentsJson = fmt.Sprintf(`{"output_ref":%q,"pattern":%q}`, res.GetTruncation().GetOutputRef(), c.pattern)
		if got := s.Call(read); got.GetIsError() || !strings.Contains(got.GetContent(), c.want) || strings.Contains(got.GetContent(), "[end") {
			t.Errorf("%s: %s", c.pattern, got.GetContent())
		}
	}
}
