package conversation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/store/embedded"
)

// Whatever is appended, one message a line: what is taken comes back as it was, line by
// line as in one append, and each call that is open is found in its message.
func FuzzAppend(f *testing.F) {
	f.Add("anthropic", hello+"\n"+calling+"\n"+results)
	f.Add("anthropic", hello+"\n"+calling)
	f.Add("openai", `{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"x","arguments":"{}"}},{"id":"b","custom":{"name":"y","input":"z"}}]}`+"\n"+`{"role":"tool","tool_call_id":"a"}`)
	f.Add("openai-responses", `{"type":"function_call","call_id":"a","name":"x","arguments":"{}"}`+"\n"+`{"type":"function_call_output","call_id":"a"}`)
	f.Add("anthropic", `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}],"role":"assistant"}`)
	f.Fuzz(func(t *testing.T, format, text string) {
		messages := strings.Split(text, "\n")
		store := embedded.InMemory(embedded.Options{})
		b := &conversation.Book{Store: store, Limits: conversation.Limits{TTL: time.Hour, Messages: 10_000, Bytes: 1 << 30}}
		whole := conversation.Append{Key: key, Provider: provider.Format(format), Messages: messages}
		version, err := b.Append(t.Context(), whole)
		alone := key
		alone.ID = "line by line"
		var last error
		for i, m := range messages {
			if _, last = b.Append(t.Context(), conversation.Append{Key: alone, Expected: int64(i), Provider: whole.Provider, Messages: []string{m}}); last != nil {
				break
			}
		}
		if (err == nil) != (last == nil) {
			t.Fatalf("in one append: %v; line by line: %v", err, last)
		}
		if err != nil {
			return
		}
		head, got, err := b.Load(t.Context(), key, 0, 1<<30)
		if err != nil || head.Version != version || !cmp.Equal(texts(got), messages) {
			t.Fatalf("%d messages came back at version %d: %v", len(got), head.Version, err)
		}
		pending, err := b.Pending(t.Context(), key, &head)
		if err != nil || len(pending) != len(head.Open) {
			t.Fatalf("%d of %d open calls are found: %v", len(pending), len(head.Open), err)
		}
		for i, p := range pending {
			if p.Call != head.Open[i] || p.ID == "" {
				t.Errorf("%+v, want %+v", p, head.Open[i])
			}
		}
		other, _, err := b.Load(t.Context(), alone, 0, 0)
		if err != nil || !cmp.Equal(other.Open, head.Open) {
			t.Errorf("line by line %+v are open, in one append %+v: %v", other.Open, head.Open, err)
		}
	})
}
