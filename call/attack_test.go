package call_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/conversation"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/dedupe/memory"
	"github.com/sidecall/sidecall/interpret"
	"github.com/sidecall/sidecall/provider"
	"github.com/sidecall/sidecall/testkit/calltest"
	"github.com/sidecall/sidecall/tool"
)

func attackBook(store *memory.Store) *conversation.Book {
	return &conversation.Book{Store: store, Limits: conversation.Limits{TTL: 168 * time.Hour, Messages: 1000, Bytes: 1 << 20}}
}

func attackAppend(t *testing.T, s *calltest.Sidecar, b *conversation.Book, at int64, messages ...string) error {
	t.Helper()
	_, err := b.Append(t.Context(), conversation.Append{
		Key: conversation.Key{ID: "c1"}, Expected: at, Provider: provider.Anthropic, Turn: "t1", Messages: messages, Fence: s.Fence("", "c1"),
	})
	return err
}

// The call ran, and its program was suspended for longer than the retention: then it appends
// the result that it had. What is closed says that nothing was run.
func TestAttackWhatRanAndIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		pays := calltest.Answers("paid")
		s := calltest.NewWith(t, store, dedupe.Options{Retention: time.Hour}, calltest.NewRoute(t, "pay", tool.NonIdempotent, pays))
		b := attackBook(store)
		s.With(func(p *callParts) { p.Book = b })
		if err := attackAppend(t, s, b, 0, `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"pay","input":{"order_id":"A-1"}}]}`); err != nil {
			t.Fatal(err)
		}
		s.Call(calltest.Request("a", "pay"))
		time.Sleep(3 * time.Hour)
		if err := attackAppend(t, s, b, 1, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"paid"}]}`); err != nil {
			t.Fatal(err)
		}
		if res := s.Call(calltest.Request("a", "pay")); strings.Contains(res.GetContent(), "Nothing was run") {
			t.Errorf("it ran %d times, and is told: %s", pays.Calls.Load(), res.GetContent())
		}
	})
}

// Its conversation has answered a call of which nobody knows, and the model has made it anew.
// The older loop sends it again: the verification shows that it had not happened, and it runs.
func TestAttackAnAnsweredUnknownCallRunsOnceItIsVerified(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		program, err := interpret.CompileVerification(interpret.VerificationConfig{Args: map[string]string{"order_id": "args.order_id"}, DoneWhen: "result == 'yes'", NotRunWhen: "result == 'no'"})
		if err != nil {
			t.Fatal(err)
		}
		pays := calltest.Fails(1, calltest.CutOff)
		s := calltest.NewOn(t, store, calltest.NewRoute(t, "look", tool.ReadOnly, &calltest.Backend{Do: func(ctxT, backend.Invocation) (backend.Reply, *tool.Failure) {
			return backend.Reply{Text: []byte(`"no"`), JSON: true}, nil
		}}), calltest.NewRoute(t, "pay", tool.NonIdempotent, pays, func(r *catalog.Route) {
			r.Verification = &catalog.Verification{Tool: "look", Program: program, NotRunAfter: notRunAfter, Timeout: 2 * time.Second}
		}))
		b := attackBook(store)
		s.With(func(p *callParts) { p.Book = b })
		if err := attackAppend(t, s, b, 0, `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"pay","input":{"order_id":"A-1"}}]}`); err != nil {
			t.Fatal(err)
		}
		res := s.Call(calltest.Request("a", "pay"))
		text, err := provider.Answers(provider.Anthropic, []*response{res})
		if err != nil {
			t.Fatal(err)
		}
		if err := attackAppend(t, s, b, 1, string(text[0])); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if res := s.Call(calltest.Request("a", "pay")); pays.Calls.Load() > 1 {
			t.Errorf("its conversation says %s; sent again it ran: %v", text[0], res)
		}
	})
}
