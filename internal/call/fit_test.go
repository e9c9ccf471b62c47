package call_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// gives is a backend that gives the reply of a function, by its order.
func gives(reply func(order string) tool.Reply) *calltest.Backend {
	return &calltest.Backend{Do: func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
		return reply(in.Parsed["order_id"].(string)), nil
	}}
}

// pixels are 2.9 MB that differ from order to order.
func pixels(order string) []byte {
	return bytes.Repeat([]byte(order+"\x89\xff"), 2_900_000/(len(order)+2))
}

func picture(order string) tool.Reply {
	return tool.Reply{Text: []byte("a picture"), Blocks: []tool.Block{{Type: "image", MIMEType: "image/png", Data: pixels(order)}}}
}

// patient makes a route wait for longer than a machine stands still: 40 pictures
// of 2.9 MB are seconds of work for one that is busy.
func patient(r *catalog.Route) {
	r.Tool.Policy.AttemptTimeout, r.Tool.Policy.Deadline = time.Minute, 2*time.Minute
}

// turn is a batch of calls of one tool, each with an order of its own.
func turn(n int, toolName string) *sidecallv1.ExecuteToolsRequest {
	batch := &sidecallv1.ExecuteToolsRequest{}
	for i := range n {
		req := calltest.Request(fmt.Sprintf("%s_%d", toolName, i), toolName)
		req.ArgumentsJson = fmt.Sprintf(`{"order_id":"A-%d"}`, i)
		batch.Calls = append(batch.Calls, req)
	}
	return batch
}

// send runs a batch, whose response has to fit, with one result per call.
func send(t *testing.T, s *calltest.Sidecar, batch *sidecallv1.ExecuteToolsRequest) []*sidecallv1.ExecuteToolResponse {
	t.Helper()
	res, err := service(s).ExecuteTools(t.Context(), batch)
	if err != nil || len(res.GetResults()) != len(batch.GetCalls()) {
		t.Fatalf("%d results, %v", len(res.GetResults()), err)
	}
	if size := proto.Size(res); size > result.MostBytes {
		t.Errorf("a response of %d bytes", size)
	}
	for i, one := range res.GetResults() {
		calltest.CheckInvariants(t, batch.GetCalls()[i], one)
	}
	return res.GetResults()
}

// readBytes reads what a handle stands for to its end, page by page.
func readBytes(t *testing.T, s *calltest.Sidecar, handle string, limit int64) (whole []byte, mediaType string) {
	t.Helper()
	for offset := int64(0); ; {
		page, err := service(s).ReadOutput(t.Context(), &sidecallv1.ReadOutputRequest{OutputRef: handle, ConversationId: "c1", Offset: offset, Limit: limit})
		if err != nil {
			t.Fatalf("%q at %d: %v", handle, offset, err)
		}
		if size := proto.Size(page); size > result.MostBytes {
			t.Errorf("a page of %d bytes", size)
		}
		whole = append(append(whole, page.GetData()...), page.GetContent()...)
		if offset = page.GetNextOffset(); offset == page.GetTotalBytes()+page.GetTotalChars() {
			return whole, page.GetMediaType()
		}
	}
}

// What does not fit beside other results is named, and read to the byte; sent
// again it is the same, and a call that is sent alone gets all that is recorded.
func TestResultsThatDoNotFitBesideEachOther(t *testing.T) {
	for _, n := range []int{2, 40} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			b := gives(picture)
			s := calltest.New(t, calltest.NewRoute(t, "draw", tool.NonIdempotent, b, patient))
			withReadOutput(t, s, s.Generation.Snapshot().Routes(catalog.Profile{Tools: []string{"*"}})...)
			first := send(t, s, turn(n, "draw"))
			carried := 0
			for i, res := range first {
				block, order := res.GetBlocks()[0], fmt.Sprintf("A-%d", i)
				if len(block.GetData()) > 0 {
					carried++
					continue
				}
				if block.GetSize() != int64(len(pixels(order))) || len(res.GetNotices()) != 1 || !strings.Contains(res.GetNotices()[0], "output_ref") {
					t.Errorf("result %d: %d bytes, notices %q", i, block.GetSize(), res.GetNotices())
				}
				if i > 2 {
					continue
				}
				for _, limit := range []int64{0, 1 << 40} {
					if got, kind := readBytes(t, s, block.GetOutputRef(), limit); !bytes.Equal(got, pixels(order)) || kind != "image/png" {
						t.Errorf("result %d: read %d bytes of %q", i, len(got), kind)
					}
				}
			}
			if carried != 1 {
				t.Errorf("%d pictures are carried, and there is room for one", carried)
			}
			again := send(t, s, turn(n, "draw"))
			for i, res := range again {
				if !res.GetReplayed() {
					t.Errorf("result %d is none that was recorded", i)
				}
				res.Replayed = false
				if !proto.Equal(res, first[i]) {
					t.Errorf("result %d is another one when it is sent again", i)
				}
			}
			for _, req := range turn(2, "draw").GetCalls() {
				if res := s.Call(req); !res.GetReplayed() || len(res.GetBlocks()[0].GetData()) != len(pixels("A-0")) || len(res.GetNotices()) > 0 {
					t.Errorf("sent alone: %d bytes, notices %q", len(res.GetBlocks()[0].GetData()), res.GetNotices())
				}
			}
			if calls := b.Calls.Load(); calls != int32(n) {
				t.Errorf("%d executions of %d calls", calls, n)
			}
			ask := calltest.Request("toolu_read", output.ToolName)
			ask.ArgumentsJson = fmt.Sprintf(`{"output_ref":%q}`, first[1].GetBlocks()[0].GetOutputRef())
			if res := s.Call(ask); !strings.Contains(res.GetContent(), "image/png, 2.9 MB") {
				t.Errorf("the model reads %.300s", res.GetContent())
			}
		})
	}
}

// The same with texts, structured results, items and errors, and with all at once.
func TestEveryPartOfAResultCanBeLeftOut(t *testing.T) {
	text := func(order string) string { return strings.Repeat("請求書 "+order+"\n", 300_000/(len(order)+11)) }
	long := func(r *catalog.Route) { r.Tool.Policy.MaxOutputChars = 7_000_000 }
	items := func(r *catalog.Route) {
		program, err := interpret.Compile(interpret.Config{Partial: &interpret.PartialRule{Items: "result", OK: "item.ok"}})
		if err != nil {
			t.Fatal(err)
		}
		r.Program = program
	}
	var rows []string
	for i := range 900 {
		rows = append(rows, fmt.Sprintf(`{"ok":%v,"note":%q}`, i%2 == 0, strings.Repeat("x", 400)))
	}
	s := calltest.New(t,
		calltest.NewRoute(t, "texts", tool.ReadOnly, gives(func(order string) tool.Reply { return tool.Reply{Text: []byte(text(order))} }), long),
		calltest.NewRoute(t, "cut", tool.ReadOnly, gives(func(order string) tool.Reply { return tool.Reply{Text: []byte(text(order))} }), func(r *catalog.Route) {
			r.Tool.Policy.MaxOutputChars = 60_000
		}),
		calltest.NewRoute(t, "structured", tool.ReadOnly, gives(func(order string) tool.Reply {
			return tool.Reply{Text: []byte("see there"), Structured: json.RawMessage(`{"` + order + `":"` + strings.Repeat("x", 300_000) + `"}`)}
		})),
		calltest.NewRoute(t, "items", tool.ReadOnly, gives(func(string) tool.Reply {
			return tool.Reply{Text: []byte("[" + strings.Join(rows, ",") + "]"), JSON: true}
		}), items),
		calltest.NewRoute(t, "wrong", tool.ReadOnly, calltest.Answers("ok"), func(r *catalog.Route) {
			names := make([]string, 900)
			for i := range names {
				names[i] = fmt.Sprintf(`"%s%d"`, strings.Repeat("x", 20), i)
			}
			props := make([]string, 12)
			for i := range props {
				props[i] = fmt.Sprintf(`"p%d":{"enum":[%s]}`, i, strings.Join(names, ","))
			}
			r.Tool.InputSchema = json.RawMessage(`{"type":"object","properties":{"order_id":{},` + strings.Join(props, ",") + `}}`)
		}))
	withReadOutput(t, s, s.Generation.Snapshot().Routes(catalog.Profile{Tools: []string{"*"}})...)

	for i, res := range send(t, s, turn(40, "texts")) {
		want := text(fmt.Sprintf("A-%d", i))
		if res.GetContent() == want {
			continue
		}
		cut := res.GetTruncation()
		if cut.GetReturnedChars() != 0 || cut.GetOriginalChars() != int64(len([]rune(want))) || !strings.Contains(res.GetContent(), cut.GetOutputRef()) {
			t.Fatalf("text %d: %v, %.200s", i, cut, res.GetContent())
		}
		if i%30 != 0 {
			continue
		}
		if got, kind := readBytes(t, s, cut.GetOutputRef(), 1<<40); string(got) != want || kind != "" {
			t.Errorf("text %d: read %d bytes of %q", i, len(got), kind)
		}
		ask := calltest.Request(fmt.Sprintf("read_%d", i), output.ToolName)
		ask.ArgumentsJson = fmt.Sprintf(`{"output_ref":%q}`, cut.GetOutputRef())
		if res := s.Call(ask); res.GetIsError() || !strings.Contains(res.GetContent(), want[:200]) {
			t.Errorf("the model reads %.200s", res.GetContent())
		}
	}
	batch := turn(60, "cut")
	batch.Calls = batch.GetCalls()[40:]
	for i, res := range send(t, s, batch) {
		if res.GetTruncation().GetReturnedChars() > 0 {
			continue
		}
		want := text(fmt.Sprintf("A-%d", i+40))
		if got, _ := readBytes(t, s, res.GetTruncation().GetOutputRef(), 1<<40); string(got) != want {
			t.Errorf("a text that was cut before: read %d bytes of %d", len(got), len(want))
		}
		break
	}
	mixed := turn(60, "structured")
	for i, call := range mixed.GetCalls() {
		call.ToolUseId = fmt.Sprintf("mixed_%d", i)
		call.ToolName = []string{"structured", "items"}[i%2]
	}
	wrong := turn(128, "wrong")
	for _, call := range wrong.GetCalls() {
		call.ArgumentsJson = `{"p0":1,"p1":1,"p2":1,"p3":1,"p4":1,"p5":1,"p6":1,"p7":1,"p8":1,"p9":1,"p10":1}`
	}
	left := map[string]int{}
	for i, res := range send(t, s, wrong) {
		if len(res.GetViolations()) > 1 {
			continue
		}
		left["violations"]++
		if calltest.Code(res) != tool.CodeInvalidArgs || !strings.Contains(strings.Join(res.GetNotices(), "\n"), "more violations") {
			t.Errorf("violations %d: %v", i, res)
		}
	}
	for i, res := range send(t, s, mixed) {
		switch {
		case i%2 == 0 && res.GetStructuredContentJson() == "":
			left["structured"]++
			want := `{"` + fmt.Sprintf("A-%d", i) + `":"`
			if got, kind := readBytes(t, s, res.GetStructuredOutputRef(), 0); !bytes.HasPrefix(got, []byte(want)) || len(got) < 300_000 || kind != "application/json" {
				t.Errorf("structured %d: read %d bytes of %q", i, len(got), kind)
			}
		case i%2 == 1 && len(res.GetItems()) == 0:
			left["items"]++
			if !strings.Contains(strings.Join(res.GetNotices(), "\n"), "900 of them") {
				t.Errorf("items %d: %q", i, res.GetNotices())
			}
		}
	}
	for _, part := range []string{"structured", "items", "violations"} {
		if left[part] == 0 {
			t.Errorf("no %s were left out: %v", part, left)
		}
	}
}

// A result alone fits too, whatever the tool returns; what it has no room for is
// kept, and a replay is the same to the byte.
func TestOneResultFits(t *testing.T) {
	many := tool.Reply{Text: []byte(strings.Repeat("😀", 1_000_000)), Structured: json.RawMessage(`"` + strings.Repeat("x", 3<<20) + `"`)}
	for i := range 3 {
		many.Blocks = append(many.Blocks, tool.Block{Type: "image", MIMEType: "image/png", Data: pixels(fmt.Sprint(i))[:1<<20]})
	}
	s := calltest.New(t, calltest.NewRoute(t, "all", tool.NonIdempotent, gives(func(string) tool.Reply { return many }), func(r *catalog.Route) {
		r.Tool.Policy.MaxOutputChars = 7_000_000
	}))
	s.Limit(func(l *catalog.Limits) { l.KeepOutputBytes = 32 << 20 })
	res := s.Call(calltest.Request("toolu_1", "all"))
	if size := proto.Size(res); size > result.MostBytes || size < result.MostBytes/2 {
		t.Errorf("a result of %d bytes", size)
	}
	for i, b := range res.GetBlocks() {
		if got := b.GetData(); len(got) == 0 {
			if got, _ = readBytes(t, s, b.GetOutputRef(), 0); !bytes.Equal(got, many.Blocks[i].Data) {
				t.Errorf("block %d: read %d bytes", i, len(got))
			}
		}
	}
	if got, _ := readBytes(t, s, res.GetTruncation().GetOutputRef(), 1<<40); !bytes.HasPrefix(got, many.Text) {
		t.Errorf("the text: read %d bytes", len(got))
	}
	record, err := s.Dedupe.Lookup(t.Context(), tool.CallID{Conversation: "c1", Turn: "t1", ID: "toolu_1"})
	if err != nil {
		t.Fatal(err)
	}
	again := s.Call(calltest.Request("toolu_1", "all"))
	again.Replayed = false
	recorded := &sidecallv1.ExecuteToolResponse{}
	if err := proto.Unmarshal(record.Result, recorded); err != nil || !proto.Equal(again, res) || !proto.Equal(recorded, res) {
		t.Errorf("the replay, or the record, is another one: %v", err)
	}
	execution, err := service(s).GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: "toolu_1"})
	if err != nil || !proto.Equal(execution.GetResult(), res) {
		t.Errorf("GetExecution: %v", err)
	}
}

// A record may hold more than anybody can receive at once.
func TestAResultThatWasRecordedTooLargeFits(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "draw", tool.NonIdempotent, calltest.Answers("ok")))
	s.Call(calltest.Request("toolu_0", "draw"))
	key := tool.CallID{Conversation: "c1", Turn: "t1", ID: "toolu_1"}
	like, err := s.Dedupe.Lookup(t.Context(), tool.CallID{Conversation: "c1", Turn: "t1", ID: "toolu_0"})
	if err != nil {
		t.Fatal(err)
	}
	old, err := proto.Marshal(&sidecallv1.ExecuteToolResponse{
		ToolUseId: "toolu_1", Outcome: sidecallv1.Outcome_OUTCOME_OK, Recorded: true, Content: strings.Repeat("x", 2<<20),
		Blocks: []*sidecallv1.ContentBlock{{Type: "image", MimeType: "image/png", Data: make([]byte, 3<<20), Size: 3 << 20}},
	})
	if err != nil {
		t.Fatal(err)
	}
	admission, err := s.Store.Admit(t.Context(), dedupe.Request{
		Key: key, Tool: "draw", Effect: tool.NonIdempotent, Fingerprint: like.Fingerprint, Owner: "old", Lease: time.Minute, Retention: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Store.Settle(t.Context(), dedupe.Settlement{
		Key: key, Owner: "old", Epoch: admission.Record.Epoch, State: dedupe.Done, Attempts: 1, Result: old, Retention: time.Hour,
	}); err != nil {
		t.Fatal(err)
	}
	for what, res := range map[string]*sidecallv1.ExecuteToolResponse{
		"the replay": s.Call(calltest.Request("toolu_1", "draw")),
		"the record": func() *sidecallv1.ExecuteToolResponse {
			execution, err := service(s).GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: "toolu_1"})
			if err != nil {
				t.Fatal(err)
			}
			return execution.GetResult()
		}(),
	} {
		block := res.GetBlocks()[0]
		if size := proto.Size(res); size > result.MostBytes || len(block.GetData()) > 0 || len(res.GetContent()) != 2<<20 {
			t.Fatalf("%s: %d bytes", what, size)
		}
		if got, kind := readBytes(t, s, block.GetOutputRef(), 0); len(got) != 3<<20 || kind != "image/png" {
			t.Errorf("%s: read %d bytes of %q", what, len(got), kind)
		}
	}
}

// Results that nothing recorded fit as well, and no handle is made up for them.
func TestUnrecordedResultsFit(t *testing.T) {
	s := calltest.NewOn(t, brokenStore{}, calltest.NewRoute(t, "draw", tool.ReadOnly, gives(picture)))
	gone := 0
	for i, res := range send(t, s, turn(3, "draw")) {
		if b := res.GetBlocks()[0]; len(b.GetData()) == 0 {
			gone++
			if b.GetOutputRef() != "" || len(res.GetNotices()) != 1 || !strings.Contains(res.GetNotices()[0], "not kept") {
				t.Errorf("result %d: %q, %q", i, b.GetOutputRef(), res.GetNotices())
			}
		}
	}
	if gone != 2 {
		t.Errorf("%d pictures are left out", gone)
	}
}

// The handle of a recorded result is worth nothing to who has not seen it.
func TestNobodyReadsARecordByItsIDs(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "draw", tool.NonIdempotent, gives(picture)))
	handle := send(t, s, turn(2, "draw"))[1].GetBlocks()[0].GetOutputRef()
	readBytes(t, s, handle, 0)
	const mark, sum = len("rec_"), 22
	guessed := strings.TrimSuffix(handle, ".1")
	var bad []string
	for i := mark; i < len(handle); i += 5 {
		other := byte('A')
		if handle[i] == other {
			other = 'B'
		}
		bad = append(bad, handle[:i]+string(other)+handle[i+1:])
		if i < len(guessed) {
			bad = append(bad, handle[:i])
		}
	}
	bad = append(bad, guessed[:mark]+strings.Repeat("A", sum)+guessed[mark+sum:]+".1", guessed+".2", guessed+".0", guessed+".-1",
		guessed+".x", "rec_", "rec_"+base64.RawURLEncoding.EncodeToString(make([]byte, 64)))
	for _, handle := range bad {
		if _, err := service(s).ReadOutput(t.Context(), &sidecallv1.ReadOutputRequest{OutputRef: handle, ConversationId: "c1"}); status.Code(err) != codes.NotFound {
			t.Errorf("%q: %v", handle, err)
		}
	}
}
