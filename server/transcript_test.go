package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// conversing is a sidecar that keeps conversations, and a client with default settings.
type conversing struct {
	*calltest.Sidecar

	book          *conversation.Book
	conversations sidecallv1.ConversationServiceClient
	tools         sidecallv1.ToolServiceClient
}

func newConversing(t *testing.T, backends map[string]*calltest.Backend) *conversing {
	t.Helper()
	return newConversingOn(t, embedded.InMemory(embedded.Options{}), backends)
}

func newConversingOn(t *testing.T, store dedupe.Store, backends map[string]*calltest.Backend) *conversing {
	t.Helper()
	c := &conversing{Sidecar: calltest.NewOn(t, store)}
	var routes []*catalog.Route
	for name, b := range backends {
		effect := tool.NonIdempotent
		if strings.HasSuffix(name, "_keyed") {
			effect = tool.Keyed
		}
		routes = append(routes, calltest.NewRoute(t, name, effect, b))
	}
	c.Generation.Set(catalog.ConfigSource, routes)
	c.book = &conversation.Book{Store: store.(conversation.Store), Limits: conversation.Limits{TTL: time.Hour, Messages: 10_000, Bytes: 64 << 20}}
	c.With(func(p *call.Parts) { p.Book = c.book })
	conn := dialTo(t, serve(t, NewGRPC(c.Executor, NewDrain(), slog.New(slog.DiscardHandler), GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 100, Book: c.book}).Agents())).conn
	c.conversations, c.tools = sidecallv1.NewConversationServiceClient(conn), sidecallv1.NewToolServiceClient(conn)
	return c
}

func (c *conversing) append(req *sidecallv1.AppendMessagesRequest) int64 {
	c.T.Helper()
	res, err := c.conversations.AppendMessages(c.T.Context(), req)
	if err != nil {
		c.T.Fatal(err)
	}
	return res.GetVersion()
}

const asksUser = `{"role":"user","content":"pay"}`

// asking is an assistant's message that calls tools under ids.
func asking(calls ...string) string {
	var blocks []string
	for i := 0; i < len(calls); i += 2 {
		blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":{"order_id":"A-1"}}`, calls[i], calls[i+1]))
	}
	return `{"role":"assistant","content":[` + strings.Join(blocks, ",") + `]}`
}

// Every open call is told with what became of it, whatever that is, and what answers
// them is an append that the conversation takes.
func TestAConversationIsResumed(t *testing.T) {
	t.Parallel()
	running, end := make(chan struct{}), make(chan struct{})
	slow := calltest.Answers("slow")
	slow.Do = func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		close(running)
		<-end
		return tool.Reply{Text: []byte("slow")}, nil
	}
	c := newConversing(t, map[string]*calltest.Backend{
		"pay": calltest.Answers("paid"), "lose": calltest.Fails(calltest.Always, calltest.CutOff), "wait": slow, "never": calltest.Answers("no"),
	})
	c.append(&sidecallv1.AppendMessagesRequest{
		ConversationId: "c1", Provider: "anthropic", TurnId: "t1",
		MessagesJson: []string{asksUser, asking("done", "pay", "unknown", "lose", "running", "wait", "new", "never", "gone", "no_such_tool", "other", "never")},
	})
	done := c.Call(calltest.Request("done", "pay"))
	lost := c.Call(calltest.Request("unknown", "lose"))
	c.Call(calltest.Request("other", "pay")) // its id is another call's
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Call(calltest.Request("running", "wait"))
	}()
	<-running

	res, err := c.conversations.ResumeConversation(t.Context(), &sidecallv1.ResumeConversationRequest{ConversationId: "c1"})
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		id    string
		state sidecallv1.Pending
		says  string
	}{
		{"done", sidecallv1.Pending_PENDING_DONE, done.GetContent()},
		{"unknown", sidecallv1.Pending_PENDING_UNKNOWN, lost.GetContent()},
		{"running", sidecallv1.Pending_PENDING_IN_PROGRESS, "IN_PROGRESS"},
		{"new", sidecallv1.Pending_PENDING_NOT_RUN, "Nothing was run. Call never again"},
		{"gone", sidecallv1.Pending_PENDING_NOT_RUN, "Nothing was run. Call no_such_tool again"},
		{"other", sidecallv1.Pending_PENDING_UNKNOWN, "was used before"},
	}
	if res.GetVersion() != 2 || res.GetProvider() != "anthropic" || len(res.GetMessagesJson()) != 2 || res.GetNextVersion() != 0 || len(res.GetPending()) != len(want) {
		t.Fatalf("%v", res)
	}
	for i, w := range want {
		got := res.GetPending()[i]
		if got.GetToolUseId() != w.id || got.GetTurnId() != "t1" || got.GetState() != w.state || got.GetResult().GetToolUseId() != w.id || !strings.Contains(got.GetResult().GetContent(), w.says) {
			t.Errorf("%s is %v", w.id, got)
		}
		if !strings.Contains(res.GetAnswersJson()[0], mustJSON(t, got.GetResult().GetContent())) {
			t.Errorf("%s is not told word for word: %s", w.id, res.GetAnswersJson()[0])
		}
	}
	if calls := c.State("new"); calls != 0 {
		t.Errorf("a call was run: %v", calls)
	}
	answers := &sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "anthropic", ExpectedVersion: 2, MessagesJson: res.GetAnswersJson()}
	refused := make(chan error, 1)
	go func() {
		_, err := c.conversations.AppendMessages(t.Context(), answers)
		refused <- err
	}()
	close(end)
	<-ended
	if err := <-refused; status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a call that is running is answered: %v", err)
	}
	if res, err = c.conversations.ResumeConversation(t.Context(), &sidecallv1.ResumeConversationRequest{ConversationId: "c1"}); err != nil {
		t.Fatal(err)
	}
	answers.MessagesJson = res.GetAnswersJson()
	if v := c.append(answers); v != 3 {
		t.Errorf("answered at version %d", v)
	}
	res, err = c.conversations.ResumeConversation(t.Context(), &sidecallv1.ResumeConversationRequest{ConversationId: "c1"})
	if err != nil || len(res.GetPending()) != 0 || len(res.GetAnswersJson()) != 0 || len(res.GetMessagesJson()) != 3 {
		t.Errorf("when all is answered: %v, %v", res, err)
	}
}

func mustJSON(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

// A call whose record may be forgotten is not said to have run nothing.
func TestACallOfLongAgoMayHaveRun(t *testing.T) {
	t.Parallel()
	c := newConversing(t, map[string]*calltest.Backend{"pay": calltest.Answers("paid"), "pay_keyed": calltest.Answers("paid")})
	c.append(&sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "anthropic", TurnId: "t1", MessagesJson: []string{asking("a", "pay", "b", "no_such_tool", "c", "pay_keyed")}})
	c.book.Store = later{c.book.Store, 23 * time.Hour} // of 24
	res, err := c.conversations.ResumeConversation(t.Context(), &sidecallv1.ResumeConversationRequest{ConversationId: "c1"})
	if err != nil || len(res.GetPending()) != 3 {
		t.Fatal(res, err)
	}
	for _, p := range res.GetPending() {
		// What may be repeated under its id is to be sent again.
		again := p.GetToolName() == "pay_keyed"
		if p.GetState() != sidecallv1.Pending_PENDING_UNKNOWN || p.GetResult().GetError().GetCode() != "OUTCOME_UNKNOWN" || p.GetResult().GetRecorded() != again {
			t.Errorf("%v", p)
		}
	}
	// Of these only that one is sent again.
	made, err := c.tools.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{OpenAtVersion: 1, Shared: &sidecallv1.ExecuteToolRequest{ConversationId: "c1"}})
	if err != nil || len(made.GetResults()) != 3 || len(made.GetMessagesJson()) != 1 {
		t.Fatal(made, err)
	}
	for i, one := range made.GetResults() {
		if ran := i == 2; one.GetToolUseId() != string(rune('a'+i)) || (one.GetContent() == "paid") != ran || (calltest.Code(one) == tool.CodeOutcomeUnknown) == ran {
			t.Errorf("%v", one)
		}
	}
}

// later is a store by whose clock it is later.
type later struct {
	conversation.Store

	by time.Duration
}

func (l later) ReadConversation(ctx context.Context, key conversation.Key, from int64, most int) (conversation.Stored, error) {
	stored, err := l.Store.ReadConversation(ctx, key, from, most)
	stored.Now = stored.Now.Add(l.by)
	return stored, err
}

// A keyed call whose attempts were lost may have had its effect: repeated under its id it
// is had once, and under another, which is what a model would call it by, twice.
func TestALostKeyedCallMayHaveRun(t *testing.T) {
	t.Parallel()
	c := newConversing(t, map[string]*calltest.Backend{"pay_keyed": calltest.Fails(calltest.Always, calltest.CutOff)})
	c.append(&sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "anthropic", TurnId: "t1", MessagesJson: []string{asking("a", "pay_keyed")}})
	c.Call(calltest.Request("a", "pay_keyed"))
	res, err := c.conversations.ResumeConversation(t.Context(), &sidecallv1.ResumeConversationRequest{ConversationId: "c1"})
	if err != nil || len(res.GetPending()) != 1 {
		t.Fatal(res, err)
	}
	got := res.GetPending()[0]
	if got.GetState() != sidecallv1.Pending_PENDING_UNKNOWN || got.GetResult().GetError().GetCode() != "OUTCOME_UNKNOWN" ||
		!got.GetResult().GetRecorded() || strings.Contains(got.GetResult().GetContent(), "Nothing was run") {
		t.Errorf("%v", got)
	}
}

// Whatever is in a conversation, a client with default settings gets all of it, page by
// page, and what is left out of results is read by its output_ref.
func TestALargeConversationIsReceived(t *testing.T) {
	t.Parallel()
	c := newConversing(t, map[string]*calltest.Backend{"draw": {Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		return tool.Reply{Blocks: []tool.Block{{Type: "image", MIMEType: "image/png", Data: bytes.Repeat([]byte{0x89}, 2900<<10)}}}, nil
	}}})
	var want []string
	for i := range 5 {
		size := (conversation.MaxMessageBytes - 100) / (i + 1)
		want = append(want, fmt.Sprintf(`{"role":"user","content":"%s"}`, strings.Repeat(`\"<`, size/3)))
	}
	want = append(want, asking("a", "draw", "b", "draw"))
	for i, m := range want {
		c.append(&sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "anthropic", TurnId: "t1", ExpectedVersion: int64(i), MessagesJson: []string{m}})
	}
	for _, id := range []string{"a", "b"} {
		if res := c.Call(calltest.Request(id, "draw")); res.GetIsError() {
			t.Fatal(res)
		}
	}
	res, err := c.conversations.ResumeConversation(t.Context(), &sidecallv1.ResumeConversationRequest{ConversationId: "c1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range res.GetPending() {
		ref := p.GetResult().GetBlocks()[0].GetOutputRef()
		read, err := c.tools.ReadOutput(t.Context(), &sidecallv1.ReadOutputRequest{ConversationId: "c1", OutputRef: ref, Limit: 10})
		if err != nil || p.GetState() != sidecallv1.Pending_PENDING_DONE || read.GetTotalBytes() != 2900<<10 {
			t.Errorf("%s: %v %v", p.GetToolUseId(), read, err)
		}
	}
	got, next := res.GetMessagesJson(), res.GetNextVersion()
	if len(got) == len(want) {
		t.Error("it has one page")
	}
	for next != 0 || len(got) == 0 {
		page, err := c.conversations.LoadConversation(t.Context(), &sidecallv1.LoadConversationRequest{ConversationId: "c1", FromVersion: int64(len(got))})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.GetMessagesJson()) == 0 {
			t.Fatal("an empty page")
		}
		got, next = append(got, page.GetMessagesJson()...), page.GetNextVersion()
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%d messages came, of %d", len(got), len(want))
	}
}

// What is wrong with a request about a conversation is a status that names the field.
func TestAConversationThatCannotBeIsAStatus(t *testing.T) {
	t.Parallel()
	c := newConversing(t, nil)
	c.append(&sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "openai", MessagesJson: []string{asksUser}})
	c.book.Limits.Messages = 2
	var trailer metadata.MD
	for name, ask := range map[string]struct {
		code  codes.Code
		field string
		ask   func(ctx context.Context) error
	}{
		"stale": {codes.Aborted, "expected_version: is 5, and the conversation is at version 1", func(ctx context.Context) error {
			_, err := c.conversations.AppendMessages(ctx, &sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "openai", ExpectedVersion: 5, MessagesJson: []string{asksUser}}, grpc.Trailer(&trailer))
			return err
		}},
		"no JSON": {codes.InvalidArgument, "messages_json[0]: ", func(ctx context.Context) error {
			_, err := c.conversations.AppendMessages(ctx, &sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "openai", ExpectedVersion: 1, MessagesJson: []string{"x"}})
			return err
		}},
		"no UTF-8": {codes.InvalidArgument, "messages_json[0]: ", func(ctx context.Context) error {
			return c.lenient(ctx, "\xff")
		}},
		"full": {codes.ResourceExhausted, "messages_json: ", func(ctx context.Context) error {
			_, err := c.conversations.AppendMessages(ctx, &sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "openai", ExpectedVersion: 1, MessagesJson: []string{asksUser, asksUser}})
			return err
		}},
		"nobody's": {codes.NotFound, "conversation_id: ", func(ctx context.Context) error {
			_, err := c.conversations.LoadConversation(ctx, &sidecallv1.LoadConversationRequest{ConversationId: "c2"})
			return err
		}},
		"to be resumed": {codes.NotFound, "conversation_id: ", func(ctx context.Context) error {
			_, err := c.conversations.ResumeConversation(ctx, &sidecallv1.ResumeConversationRequest{ConversationId: "c2"})
			return err
		}},
		"without an id": {codes.InvalidArgument, "conversation_id: ", func(ctx context.Context) error {
			_, err := c.conversations.ResumeConversation(ctx, &sidecallv1.ResumeConversationRequest{})
			return err
		}},
		"behind the end": {codes.InvalidArgument, "from_version: ", func(ctx context.Context) error {
			_, err := c.conversations.LoadConversation(ctx, &sidecallv1.LoadConversationRequest{ConversationId: "c1", FromVersion: 2})
			return err
		}},
		"too many": {codes.InvalidArgument, "page_size: ", func(ctx context.Context) error {
			_, err := c.conversations.ListConversations(ctx, &sidecallv1.ListConversationsRequest{PageSize: 1001})
			return err
		}},
		"no such page": {codes.InvalidArgument, "page_token: ", func(ctx context.Context) error {
			_, err := c.conversations.ListConversations(ctx, &sidecallv1.ListConversationsRequest{PageToken: "no such page"})
			return err
		}},
	} {
		err := ask.ask(t.Context())
		if status.Code(err) != ask.code || !strings.HasPrefix(status.Convert(err).Message(), ask.field) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := trailer.Get(versionTrailer); len(got) != 1 || got[0] != "1" {
		t.Errorf("the trailer of a stale append is %q", got)
	}
	list, err := c.conversations.ListConversations(t.Context(), &sidecallv1.ListConversationsRequest{})
	if err != nil || len(list.GetConversations()) != 1 || list.GetConversations()[0].GetVersion() != 1 || list.GetConversations()[0].GetConversationId() != "c1" {
		t.Errorf("%v %v", list, err)
	}
}

// lenient appends a message that the generated client would not send.
func (c *conversing) lenient(ctx context.Context, message string) error {
	_, err := (&Conversations{Executor: c.Executor, Book: c.book}).AppendMessages(ctx, &sidecallv1.AppendMessagesRequest{
		ConversationId: "c1", Provider: "openai", ExpectedVersion: 1, MessagesJson: []string{message},
	})
	return err
}

// Room for the answers of a turn: what a thousand calls are told fits into a response.
func TestManyOpenCallsAreTold(t *testing.T) {
	t.Parallel()
	c := newConversing(t, map[string]*calltest.Backend{"pay": calltest.Answers("paid")})
	var items []string
	for i := range 1000 {
		items = append(items, fmt.Sprintf(`{"type":"function_call","call_id":"%s%d","name":"%s","arguments":"{}"}`, strings.Repeat("i", 200), i, strings.Repeat("n", 120)))
	}
	c.append(&sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "openai-responses", TurnId: "t1", MessagesJson: items})
	res, err := c.conversations.ResumeConversation(t.Context(), &sidecallv1.ResumeConversationRequest{ConversationId: "c1"})
	if err != nil || len(res.GetPending()) != 1000 || len(res.GetAnswersJson()) != 1000 {
		t.Fatalf("%d pending, %d answers, %v", len(res.GetPending()), len(res.GetAnswersJson()), err)
	}
	t.Logf("%d bytes", proto.Size(res))
}
