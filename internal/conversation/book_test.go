package conversation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/store/embedded"
)

// book is one on an empty store.
func book(t *testing.T) *conversation.Book {
	t.Helper()
	store := embedded.InMemory(embedded.Options{})
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return &conversation.Book{Store: store, Limits: conversation.Limits{TTL: time.Hour, Messages: 100, Bytes: 1 << 20}}
}

var key = conversation.Key{Tenant: "acme", ID: "c"}

func follows(version int64, messages ...string) conversation.Append {
	return conversation.Append{Key: key, Expected: version, Provider: provider.Anthropic, Turn: "t1", Messages: messages}
}

const (
	hello   = `{"role":"user","content":"refund A-7"}`
	calling = `{"role":"assistant","content":[{"type":"thinking","thinking":"…","signature":"EqQB"},{"type":"tool_use","id":"a","name":"refund","input":{"order_id": "A-7"}},{"type":"tool_use","id":"b","name":"get_order","input":{}}]}`
	results = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":"{}"},{"type":"tool_result","tool_use_id":"a","content":"done"},{"type":"text","text":"go on"}]}`
)

func appended(t *testing.T, b *conversation.Book, a conversation.Append) int64 {
	t.Helper()
	version, err := b.Append(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

func texts(messages []conversation.Message) (all []string) {
	for _, m := range messages {
		all = append(all, m.JSON)
	}
	return all
}

func TestMessagesComeBackByteForByte(t *testing.T) {
	t.Parallel()
	b := book(t)
	odd := "\n {\"role\" : \"user\",\t\"content\":\"\\u00e9 é \\/ <>&  \", \"x\":1e400}"
	if v := appended(t, b, follows(0, hello, calling)); v != 2 {
		t.Errorf("at version %d", v)
	}
	if v := appended(t, b, follows(2, results)); v != 3 {
		t.Errorf("at version %d", v)
	}
	appended(t, b, follows(3, odd))
	head, messages, err := b.Load(t.Context(), key, 0, 1<<20)
	want := []string{hello, calling, results, odd}
	if err != nil || head.Version != 4 || head.Provider != provider.Anthropic || !slices.Equal(texts(messages), want) {
		t.Fatalf("%+v %q %v", head, messages, err)
	}
	if head.Bytes != int64(len(strings.Join(want, ""))) || head.StartedAt.IsZero() || head.UpdatedAt.Before(head.StartedAt) || len(head.Open) != 0 {
		t.Errorf("%+v", head)
	}
	if _, messages, err := b.Load(t.Context(), key, 2, 1); err != nil || !slices.Equal(texts(messages), want[2:3]) {
		t.Errorf("a page from 2 on: %q %v", messages, err)
	}
	if _, messages, err := b.Load(t.Context(), key, 4, 1); err != nil || len(messages) != 0 {
		t.Errorf("from the end on: %q %v", messages, err)
	}
}

// A call is known by its turn: who appends one says in which it is made, and what is appended
// without calls need not.
func TestACallIsAppendedWithItsTurn(t *testing.T) {
	t.Parallel()
	b, version := book(t), int64(0)
	for _, messages := range [][]string{{hello}, {calling}, {results}} {
		a := follows(version, messages...)
		a.Turn = ""
		_, err := b.Append(t.Context(), a)
		if calls := messages[0] == calling; calls != (err != nil) || calls && !strings.Contains(err.Error(), "turn_id: is missing: messages_json[0] has calls") {
			t.Errorf("%s: %v", messages[0], err)
		}
		if a.Turn = "t1"; err != nil {
			appended(t, b, a)
		}
		version++
	}
}

// An append whose answer was lost is sent again: it stands there once.
func TestAnAppendIsSentAgain(t *testing.T) {
	t.Parallel()
	b := book(t)
	first, second := follows(0, hello), follows(1, calling)
	first.ID, second.ID = "one", "two"
	for range 3 {
		if v := appended(t, b, first); v != 1 {
			t.Errorf("at version %d", v)
		}
	}
	appended(t, b, second)
	for range 2 { // whatever came after it
		if v := appended(t, b, second); v != 2 {
			t.Errorf("at version %d", v)
		}
		if v := appended(t, b, first); v != 1 {
			t.Errorf("the first, again: at version %d", v)
		}
	}
	head, messages, err := b.Load(t.Context(), key, 0, 1<<20)
	if err != nil || head.Version != 2 || len(messages) != 2 {
		t.Errorf("%+v %q %v", head, messages, err)
	}
}

func TestAStaleVersionIsRefused(t *testing.T) {
	t.Parallel()
	b := book(t)
	appended(t, b, follows(0, hello))
	for _, a := range []conversation.Append{follows(0, calling), follows(2, calling), follows(0, hello, calling)} {
		_, err := b.Append(t.Context(), a)
		var stale *conversation.Stale
		if !errors.As(err, &stale) || stale.Version != 1 || stale.Expected != a.Expected {
			t.Errorf("after %d: %v", a.Expected, err)
		}
	}
}

// An append is its client's: the same text of another is another append, and so is
// another text under the same id.
func TestTwoWritersWithTheSameText(t *testing.T) {
	t.Parallel()
	b := book(t)
	mine := follows(0, hello)
	mine.ID = "mine"
	appended(t, b, mine)
	theirs, other, nameless := mine, mine, mine
	bare := mine
	bare.Key.ID, bare.ID = "of appends without ids", ""
	appended(t, b, bare)
	theirs.ID, other.Turn, nameless.ID = "theirs", "another", ""
	for what, a := range map[string]conversation.Append{"another id": theirs, "another turn": other, "no id": nameless, "no id, both": bare} {
		_, err := b.Append(t.Context(), a)
		if _, stale := errors.AsType[*conversation.Stale](err); !stale {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Two loops go on with one conversation: one of them is told.
func TestOneOfManyAppends(t *testing.T) {
	t.Parallel()
	b := book(t)
	const loops = 16
	answers := make(chan error, loops)
	for i := range loops {
		go func() {
			_, err := b.Append(context.Background(), follows(0, fmt.Sprintf(`{"role":"user","content":"%d"}`, i)))
			answers <- err
		}()
	}
	won := 0
	for range loops {
		err := <-answers
		if err == nil {
			won++
		} else if _, stale := errors.AsType[*conversation.Stale](err); !stale {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d were written", won, loops)
	}
}

func TestPendingCalls(t *testing.T) {
	t.Parallel()
	for format, messages := range map[provider.Format][]string{
		provider.Anthropic: {hello, calling},
		provider.OpenAI: {
			hello,
			`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"refund","arguments":"{\"order_id\": \"A-7\"}"}},{"id":"z","type":"custom","custom":{"name":"shell","input":"ls"}},{"id":"b","type":"function","function":{"name":"get_order","arguments":"{}"}}]}`,
			`{"role":"tool","tool_call_id":"z","content":"none"}`,
		},
		provider.OpenAIResponses: {
			hello,
			`{"type":"reasoning","id":"rs_1","summary":[]}`,
			`{"type":"function_call","call_id":"a","name":"refund","arguments":"{\"order_id\": \"A-7\"}"}`,
			`{"type":"function_call","call_id":"z","name":"other","arguments":"{}"}`,
			`{"type":"function_call","call_id":"b","name":"get_order","arguments":"{}"}`,
			`{"type":"message","role":"assistant","content":[]}`,
			`{"type":"function_call_output","call_id":"z","output":"none"}`,
		},
	} {
		b := book(t)
		a := follows(0, messages...)
		a.Provider = format
		appended(t, b, a)
		head, _, err := b.Load(t.Context(), key, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		pending, err := b.Pending(t.Context(), key, &head)
		if err != nil || len(pending) != 2 {
			t.Fatalf("%s: %+v %v", format, pending, err)
		}
		for i, want := range []conversation.Asked{
			{Call: conversation.Call{ID: "a", Turn: "t1", Tool: "refund"}, Arguments: `{"order_id": "A-7"}`},
			{Call: conversation.Call{ID: "b", Turn: "t1", Tool: "get_order"}, Arguments: `{}`},
		} {
			if format == provider.OpenAIResponses {
				want.Kind = "function_call"
			}
			if pending[i].At = 0; pending[i] != want {
				t.Errorf("%s: %+v, want %+v", format, pending[i], want)
			}
		}
	}
}

// What no provider takes is refused, with the place of what is wrong, and nothing of
// the append is written.
func TestWhatNoProviderTakesIsRefused(t *testing.T) {
	t.Parallel()
	const (
		ask    = `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"refund","arguments":"{}"}}]}`
		answer = `{"role":"tool","tool_call_id":"a","content":"ok"}`
		item   = `{"type":"function_call","call_id":"a","name":"refund","arguments":"{}"}`
		output = `{"type":"function_call_output","call_id":"a","output":"ok"}`
	)
	for what, c := range map[string]struct {
		format   provider.Format
		messages []string
		field    string
		says     string
	}{
		"no JSON":                 {"anthropic", []string{hello, `{"role":`}, "messages_json[1]", "cannot be read"},
		"two values":              {"anthropic", []string{hello + hello}, "messages_json[0]", "cannot be read"},
		"a list":                  {"anthropic", []string{`[` + hello + `]`}, "messages_json[0]", "no JSON object"},
		"a text":                  {"openai", []string{`"hello"`}, "messages_json[0]", "no JSON object"},
		"nothing":                 {"openai", []string{``}, "messages_json[0]", "no JSON object"},
		"not UTF-8":               {"openai", []string{"{\"role\":\"\xff\"}"}, "messages_json[0]", "UTF-8"},
		"no role":                 {"openai", []string{`{}`}, "messages_json[0].role", "missing"},
		"an unknown role":         {"anthropic", []string{`{"role":"tool","content":"x"}`}, "messages_json[0].role", `"tool"`},
		"no type":                 {"openai-responses", []string{`{}`}, "messages_json[0].type", "missing"},
		"an orphaned call":        {"anthropic", []string{hello, calling, hello}, "messages_json[2]", `"a"`},
		"one result of two":       {"anthropic", []string{calling, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"b"}]}`}, "messages_json[1]", `"a"`},
		"results behind a text":   {"anthropic", []string{calling, `{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"b"},{"type":"tool_result","tool_use_id":"a"}]}`}, "messages_json[1].content", "come first"},
		"a result twice":          {"anthropic", []string{calling, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"b"},{"type":"tool_result","tool_use_id":"b"},{"type":"tool_result","tool_use_id":"a"}]}`}, "messages_json[1]", `"b", which is not open`},
		"a turn answered twice":   {"anthropic", []string{calling, results, results}, "messages_json[2]", "which is not open"},
		"a result of no call":     {"anthropic", []string{`{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]}`}, "messages_json[0]", `"x"`},
		"an id twice":             {"anthropic", []string{`{"role":"assistant","content":[{"type":"tool_use","id":"a"},{"type":"tool_use","id":"a"}]}`}, "messages_json[0]", "two calls"},
		"a call without an id":    {"openai", []string{`{"role":"assistant","tool_calls":[{"function":{"name":"x"}}]}`}, "messages_json[0]", "without an id"},
		"content that is none":    {"anthropic", []string{`{"role":"user","content":[1]}`}, "messages_json[0].content", "cannot be read"},
		"an orphaned tool call":   {"openai", []string{ask, hello}, "messages_json[1]", `"a"`},
		"a tool message of none":  {"openai", []string{answer}, "messages_json[0]", `"a"`},
		"a tool message twice":    {"openai", []string{ask, answer, answer}, "messages_json[2]", `"a"`},
		"an orphaned item":        {"openai-responses", []string{item, hello}, "messages_json[1]", `"a"`},
		"an output of none":       {"openai-responses", []string{output}, "messages_json[0]", `"a"`},
		"an output twice":         {"openai-responses", []string{item, output, output}, "messages_json[2]", `"a"`},
		"an unknown provider":     {"acme", []string{hello}, "provider", `"acme"`},
		"no messages":             {"openai", nil, "messages_json", "empty"},
		"too large a message":     {"openai", []string{`{"role":"user","content":"` + strings.Repeat("x", conversation.MaxMessageBytes) + `"}`}, "messages_json[0]", "at most"},
		"an id that is too long":  {"openai", []string{`{"role":"assistant","tool_calls":[{"id":"` + strings.Repeat("x", 300) + `"}]}`}, "messages_json[0]", "300 bytes"},
		"too many calls":          {"openai-responses", calls(1025), "messages_json[1024]", "more than 1024"},
		"too many in one request": {"openai", slices.Repeat([]string{hello}, 5000), "messages_json", "at most 4096"},
	} {
		b := book(t)
		b.Limits.Messages = 10_000
		a := follows(0, c.messages...)
		a.Provider = c.format
		_, err := b.Append(t.Context(), a)
		var invalid *conversation.Invalid
		if !errors.As(err, &invalid) || invalid.Field != c.field || !strings.Contains(invalid.Why, c.says) {
			t.Errorf("%s: %v, want %s: …%s…", what, err, c.field, c.says)
		}
		if _, _, err := b.Load(t.Context(), key, 0, 0); !errors.Is(err, conversation.ErrNone) {
			t.Errorf("%s: half of it is written: %v", what, err)
		}
	}
}

func calls(n int) (items []string) {
	for i := range n {
		items = append(items, fmt.Sprintf(`{"type":"function_call","call_id":"%d","name":"x","arguments":"{}"}`, i))
	}
	return items
}

func TestRequestsThatCanBeNone(t *testing.T) {
	t.Parallel()
	b := book(t)
	appended(t, b, follows(0, hello))
	for field, change := range map[string]func(*conversation.Append){
		"conversation_id":  func(a *conversation.Append) { a.Key.ID = "" },
		"turn_id":          func(a *conversation.Append) { a.Turn = strings.Repeat("x", 257) },
		"expected_version": func(a *conversation.Append) { a.Expected = -1 },
		"provider":         func(a *conversation.Append) { a.Provider = provider.OpenAI },
	} {
		a := follows(1, hello)
		change(&a)
		_, err := b.Append(t.Context(), a)
		var invalid *conversation.Invalid
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, from := range []int64{-1, 2} {
		_, _, err := b.Load(t.Context(), key, from, 0)
		var invalid *conversation.Invalid
		if !errors.As(err, &invalid) || invalid.Field != "from_version" {
			t.Errorf("from %d: %v", from, err)
		}
	}
	if _, _, err := b.Load(t.Context(), conversation.Key{Tenant: "globex", ID: "c"}, 0, 0); !errors.Is(err, conversation.ErrNone) {
		t.Errorf("another tenant's: %v", err)
	}
}

func TestAConversationHasBounds(t *testing.T) {
	t.Parallel()
	b := book(t)
	b.Limits.Messages, b.Limits.Bytes = 3, int64(3*len(hello)-1)
	appended(t, b, follows(0, hello, hello))
	for setting, a := range map[string]conversation.Append{
		"conversations.max_messages": follows(2, `{"role":"user"}`, `{"role":"user"}`),
		"conversations.max_bytes":    follows(2, hello),
	} {
		_, err := b.Append(t.Context(), a)
		var full *conversation.Full
		if !errors.As(err, &full) || full.Setting != setting {
			t.Errorf("%s: %v", setting, err)
		}
	}
	appended(t, b, follows(2, `{"role":"user"}`))
}

func TestConversationsAreListed(t *testing.T) {
	t.Parallel()
	b := book(t)
	for i := range 5 {
		a := follows(0, hello, calling)
		a.Key.ID = fmt.Sprint("c", i)
		appended(t, b, a)
	}
	var ids []string
	for from := ""; ; {
		found, next, err := b.List(t.Context(), "acme", from, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range found {
			if ids = append(ids, one.ID); one.Err != nil || one.Head.Version != 2 || len(one.Head.Open) != 2 {
				t.Errorf("%+v", one)
			}
		}
		if from = next; from == "" {
			break
		}
	}
	if got := strings.Join(ids, " "); got != "c0 c1 c2 c3 c4" {
		t.Errorf("listed %q", got)
	}
}
