package conversation_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/provider"
)

// A message of many small things costs in proportion to its bytes, and not what each of
// them would take as a value.
func TestAMessageCostsInProportion(t *testing.T) {
	b := book(t)
	b.Limits.Bytes = 64 << 20
	many := strings.Repeat(`{},`, 1_000_000) + `{}`
	for what, m := range map[string]struct {
		format provider.Format
		text   string
	}{
		"blocks":     {provider.Anthropic, `{"role":"user","content":[` + many + `]}`},
		"tool_calls": {provider.OpenAI, `{"role":"assistant","tool_calls":[` + many + `]}`},
		"tool_uses":  {provider.Anthropic, `{"role":"assistant","content":[` + strings.Repeat(`{"type":"tool_use"},`, 100_000) + `{}]}`},
	} {
		a := follows(0, m.text)
		a.Provider, a.Key.ID = m.format, what
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := b.Append(t.Context(), a) // what is wrong with it does not matter here
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 8*uint64(len(m.text)) {
			t.Errorf("%s: %d bytes took %d: %v", what, len(m.text), took, err)
		}
	}
}

// A text that one reader takes for a call, and another for none, is no message: names
// are what they are byte for byte, and stand once.
func TestAMessageMeansOneThing(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		text string
		open int // -1: it is refused
	}{
		"a role twice":            {`{"role":"user","role":"assistant","content":"x"}`, -1},
		"a type twice":            {`{"role":"assistant","content":[{"type":"tool_use","id":"a","type":"text"}]}`, -1},
		"another Role":            {`{"role":"assistant","Role":"user","content":[{"type":"tool_use","id":"a","name":"x","input":{}}]}`, 1},
		"another Type":            {`{"role":"assistant","content":[{"type":"tool_use","Type":"text","id":"a","ID":"b","name":"x","input":{}}]}`, 1},
		"only a Role":             {`{"Role":"user","content":"x"}`, -1},
		"CONTENT":                 {`{"role":"assistant","content":"x","CONTENT":[{"type":"tool_use","id":"a","name":"x"}]}`, 0},
		"a lone surrogate inside": {`{"role":"user","content":"\ud800"}`, 0},
		"a NUL in an id":          {`{"role":"assistant","content":[{"type":"tool_use","id":"a\u0000","name":"x","input":{}}]}`, -1},
		"an id that is none":      {`{"role":"assistant","content":[{"type":"tool_use","id":"\ud800","name":"x","input":{}}]}`, -1},
	} {
		b := book(t)
		_, err := b.Append(t.Context(), follows(0, c.text))
		if c.open < 0 {
			if _, refused := errors.AsType[*conversation.Invalid](err); !refused {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if head, _, err := b.Load(t.Context(), key, 0, 0); err != nil || len(head.Open) != c.open {
			t.Errorf("%s: %+v %v", what, head.Open, err)
		}
	}
}

// Why a message is refused is told in a few words, whatever stands in it.
func TestARefusalIsShort(t *testing.T) {
	t.Parallel()
	b := book(t)
	b.Limits.Bytes = 64 << 20
	long := strings.Repeat("n", 1<<20)
	for what, text := range map[string]string{
		"a long name twice":  `{"role":"user","` + long + `":{"a":1,"a":2}}`,
		"a long number":      `{"role":` + strings.Repeat("1", 1<<20) + `}`,
		"a long role":        `{"role":"` + long + `"}`,
		"a long tool's name": `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"` + long + `","input":{}}]}`,
		"a long id":          `{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + long + `"}]}`,
		"deep":               `{"role":"user","content":` + strings.Repeat("[", 1<<20) + `}`,
	} {
		_, err := b.Append(t.Context(), follows(0, text))
		if _, refused := errors.AsType[*conversation.Invalid](err); !refused || len(err.Error()) > 1000 {
			t.Errorf("%s: %d bytes: %.200v", what, len(fmt.Sprint(err)), err)
		}
	}
}

// When the model made the oldest call that is open decides what its record can tell: a
// later call beside it makes it no younger.
func TestTheOldestOpenCallIsDated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := book(t)
		item := func(id string) string {
			return `{"type":"function_call","call_id":"` + id + `","name":"x","arguments":"{}"}`
		}
		said := func(version int64, messages ...string) (age time.Duration) {
			t.Helper()
			a := follows(version, messages...)
			a.Provider = provider.OpenAIResponses
			appended(t, b, a)
			head, _, now, err := b.LoadAt(t.Context(), key, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			return now.Sub(head.CalledAt)
		}
		said(0, item("a"))
		time.Sleep(25 * time.Minute)
		if age := said(1, item("b")); age != 25*time.Minute {
			t.Errorf("with a call of then and one of now: %s", age)
		}
		time.Sleep(25 * time.Minute)
		if age := said(2, `{"type":"function_call_output","call_id":"a","output":""}`, `{"type":"function_call_output","call_id":"b","output":""}`, item("c")); age != 0 {
			t.Errorf("with one of now alone: %s", age)
		}
	})
}

// What a listing is made of is small, however many calls with however long ids are open:
// a page of it has a thousand.
func TestAListingHoldsLittle(t *testing.T) {
	t.Parallel()
	b := book(t)
	b.Limits.Bytes, b.Limits.Messages = 64<<20, 2000
	var items []string
	for i := range 1000 {
		items = append(items, fmt.Sprintf(`{"type":"function_call","call_id":"%0200d","name":"x","arguments":"{}"}`, i))
	}
	a := follows(0, items...)
	a.Provider = provider.OpenAIResponses
	appended(t, b, a)
	stored, err := b.Store.ReadConversation(t.Context(), key, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	short := conversation.Brief(stored.Head)
	if len(stored.Head) < 200<<10 || len(short) > 1<<10 {
		t.Errorf("a head of %d bytes is listed in %d", len(stored.Head), len(short))
	}
	found, _, err := b.List(t.Context(), key.Tenant, "", 10)
	if err != nil || len(found) != 1 || found[0].Err != nil || found[0].Head.OpenCalls() != 1000 || found[0].Head.Version != 1000 {
		t.Errorf("listed %+v, %v", found, err)
	}
	for _, damaged := range [][]byte{stored.Head[:100_000], stored.Head[1:], make([]byte, 10_000)} {
		if short := conversation.Brief(damaged); len(short) > 1<<10 {
			t.Errorf("what is damaged is listed in %d bytes", len(short))
		}
	}
	if text := []byte("a store's own"); string(conversation.Brief(text)) != string(text) {
		t.Error("what is short is not listed as it is")
	}
}
