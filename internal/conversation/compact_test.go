package conversation_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/provider"
)

// piece is a stretch of a message: all but contents of results stays as it is.
type piece struct {
	text   string
	result string // the id of the result of which it is the content
	turn   int
}

// written makes a conversation up, message by message.
type written struct {
	*rand.Rand

	format   provider.Format
	messages [][]piece
	turns    int
	open     []string
}

func (w *written) add(pieces ...piece) { w.messages = append(w.messages, pieces) }

func (w *written) one(text string) { w.add(piece{text: text}) }

// space is what may stand between two tokens.
func (w *written) space() string { return []string{"", " ", "\n\t"}[w.IntN(3)] }

// content is that of a result: texts and lists, long ones and short ones.
func (w *written) content() string {
	text := strings.Repeat([]string{"é", "x", `\n\"`, `\u00e9`, "日"}[w.IntN(5)], w.IntN(400))
	if w.IntN(4) > 0 {
		return `"` + text + `"`
	}
	kind := map[provider.Format]string{provider.Anthropic: "text", provider.OpenAI: "text", provider.OpenAIResponses: "input_text"}[w.format]
	return fmt.Sprintf(`[ {"type":%q, "text":"%s"}]`, kind, text)
}

// calls adds calls of the model. An id may be that of an earlier turn.
func (w *written) calls() {
	w.turns++
	w.open = nil
	for i := range 1 + w.IntN(3) {
		w.open = append(w.open, fmt.Sprintf("call_%d", i+w.IntN(2)*3))
	}
	slices.Sort(w.open)
	w.open = slices.Compact(w.open)
	var made []string
	for _, id := range w.open {
		switch w.format {
		case provider.Anthropic:
			made = append(made, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":"x","input":{"content":"\u00e9"}}`, id))
		case provider.OpenAI:
			made = append(made, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"x","arguments":"{\"content\":1}"}}`, id))
		case provider.OpenAIResponses:
			w.one(`{"type":"reasoning","id":"rs","encrypted_content":"` + strings.Repeat("Eq/+", w.IntN(60)) + `"}`)
			w.one(fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":"x","arguments":"{\"output\":1}"}`, id))
		}
	}
	all := strings.Join(made, w.space()+",")
	switch w.format {
	case provider.Anthropic:
		w.one(`{"role":"assistant","content":[{"type":"thinking","thinking":"` + strings.Repeat("x", w.IntN(300)) + `","signature":"EqQB\/="},` + all + `]}`)
	case provider.OpenAI:
		w.one(`{"role":"assistant","content":null,"tool_calls":[` + all + `]}`)
	case provider.OpenAIResponses:
	}
}

// results answers so many of the open calls.
func (w *written) results(n int) {
	w.Shuffle(len(w.open), func(i, j int) { w.open[i], w.open[j] = w.open[j], w.open[i] })
	var pieces []piece
	for i, id := range w.open[:n] {
		content := piece{text: w.content(), result: id, turn: w.turns}
		switch w.format {
		case provider.Anthropic:
			before := []string{`{"role":"user","content":[`, ","}[min(i, 1)]
			if w.IntN(2) == 0 {
				pieces = append(pieces, piece{text: before + `{"content":` + w.space()}, content, piece{text: w.space() + `,"type":"tool_result","tool_use_id":` + fmt.Sprintf("%q}", id)})
			} else {
				pieces = append(pieces, piece{text: before + fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"is_error":true,"content":`, id)}, content, piece{text: `,"cache_control":{"type":"ephemeral"}}`})
			}
		case provider.OpenAI:
			w.add(piece{text: fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content"%s:`, id, w.space())}, content, piece{text: w.space() + `}`})
		case provider.OpenAIResponses:
			w.add(piece{text: `{"output":`}, content, piece{text: fmt.Sprintf(`,"type":"function_call_output","call_id":%q}`, id)})
		}
	}
	if w.format == provider.Anthropic && n > 0 {
		w.add(append(pieces, piece{text: `,{"type":"text","text":"go on"}]}`})...)
	}
	w.open = w.open[n:]
}

// converse makes a conversation of so many turns up.
func converse(seed uint64, format provider.Format) *written {
	w := &written{Rand: rand.New(rand.NewPCG(seed, 1)), format: format}
	for range w.IntN(8) {
		if w.IntN(2) == 0 {
			w.one(`{"role":"user","content":"` + strings.Repeat("y", w.IntN(100)) + `"}`)
		}
		w.calls()
		w.results(len(w.open))
		if w.IntN(3) == 0 {
			w.one(`{"role":"assistant","content":"so it is"}`)
		}
	}
	if w.IntN(3) == 0 { // the last calls are open
		w.calls()
		if format != provider.Anthropic {
			w.results(w.IntN(len(w.open)))
		}
	}
	if len(w.messages) == 0 {
		w.one(hello)
	}
	return w
}

func (w *written) texts() (all []string) {
	for _, m := range w.messages {
		text := ""
		for _, p := range m {
			text += p.text
		}
		all = append(all, text)
	}
	return all
}

var leftOut = regexp.MustCompile(`^"\[A result of \d+ characters?, left out of this conversation to save room: read_output with output_ref \\"(msg_[A-Za-z0-9_-]+)\\" returns it\.\]"`)

// check compares a message that was compacted with what was written, and returns of which
// turns results are left out, and of which they stay though they are long.
func (w *written) check(t *testing.T, b *conversation.Book, at int, got string) (gone, stay []int) {
	t.Helper()
	for _, p := range w.messages[at] {
		line := leftOut.FindStringSubmatch(got)
		if p.result == "" || line == nil {
			if !strings.HasPrefix(got, p.text) {
				t.Fatalf("message %d: %.200q, want %.200q", at, got, p.text)
			}
			got = got[len(p.text):]
			if p.result != "" && len(p.text) > 400 {
				stay = append(stay, p.turn)
			}
			continue
		}
		if len(line[0]) >= len(p.text) {
			t.Errorf("message %d: %q stands for %q", at, line[0], p.text)
		}
		back, err := b.Result(t.Context(), key, line[1])
		if want := textOf(p.text); err != nil || back != want {
			t.Errorf("message %d: %q comes back, want %q: %v", at, back, want, err)
		}
		gone, got = append(gone, p.turn), got[len(line[0]):]
	}
	if got != "" {
		t.Errorf("message %d: %q stands behind it", at, got)
	}
	return gone, stay
}

// textOf is a content as it is read: a text, or a list as it stands.
func textOf(content string) (text string) {
	if json.Unmarshal([]byte(content), &text) != nil {
		return content
	}
	return text
}

// Whatever a conversation is: compacted, it is an array that its provider takes, with the
// same calls in the same order, and all but long results of old turns as it was byte for
// byte. What was left out is read back. What is stored is what was appended.
func TestACompactedConversation(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		for _, format := range provider.Formats() {
			b, w := book(t), converse(seed, format)
			a := follows(0, w.texts()...)
			a.Provider = format
			appended(t, b, a)
			head, before, err := b.Load(t.Context(), key, 0, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			c := conversation.Compaction{AfterTurns: w.IntN(4), ToTokens: int64(w.IntN(2) * w.IntN(2000))}
			cut, err := b.CompactBefore(t.Context(), key, &head, c)
			if err != nil {
				t.Fatal(err)
			}
			messages := slices.Clone(before)
			if err := conversation.Compact(key, format, 0, cut, messages); err != nil {
				t.Fatal(err)
			}
			w.holds(t, b, c, cut, texts(messages))
			w.again(t, b, head, cut, messages)
			if _, after, err := b.Load(t.Context(), key, 0, 1<<20); err != nil || !slices.Equal(after, before) {
				t.Errorf("what is stored has changed: %v", err)
			}
			fresh := a
			fresh.Key.ID, fresh.Messages = "fresh", texts(messages)
			appended(t, b, fresh)
			if other, _, err := b.Load(t.Context(), fresh.Key, 0, 0); err != nil || !slices.Equal(other.Open, head.Open) {
				t.Errorf("%v are open, and were %v: %v", other.Open, head.Open, err)
			}
			if t.Failed() {
				t.Fatalf("seed %d, %s, %+v", seed, format, c)
			}
		}
	}
}

// holds checks which results are left out.
func (w *written) holds(t *testing.T, b *conversation.Book, c conversation.Compaction, cut int64, messages []string) {
	t.Helper()
	size, first := 0, w.turns+1
	var gone []int
	for at, m := range messages {
		some, stay := w.check(t, b, at, m)
		gone, size = append(gone, some...), size+len(m)
		for _, turn := range stay {
			first = min(first, turn)
		}
		if int64(at) >= cut && len(some) > 0 {
			t.Errorf("message %d is compacted, and those before %d are to be", at, cut)
		}
	}
	for _, turn := range gone {
		switch {
		case turn == w.turns:
			t.Errorf("of the last turn a result is left out")
		case turn > first:
			t.Errorf("of turn %d a result is left out, of %d not", turn, first)
		case c.ToTokens == 0 && (c.AfterTurns == 0 || turn > w.turns-c.AfterTurns):
			t.Errorf("of turn %d of %d a result is left out", turn, w.turns)
		}
	}
	if c.AfterTurns > 0 && first <= w.turns-c.AfterTurns {
		t.Errorf("of turn %d of %d a result stays", first, w.turns)
	}
	if c.ToTokens > 0 && int64(size) > 4*c.ToTokens && first < w.turns {
		t.Errorf("%d bytes are left, with results of turn %d of %d", size, first, w.turns)
	}
}

// again checks that pages are what the whole is, and that what is compacted stays so.
func (w *written) again(t *testing.T, b *conversation.Book, head conversation.Head, cut int64, whole []conversation.Message) {
	t.Helper()
	for at := int64(0); at < head.Version; {
		_, page, err := b.Load(t.Context(), key, at, 500)
		if err != nil {
			t.Fatal(err)
		}
		if err := conversation.Compact(key, w.format, at, cut, page); err != nil || !slices.Equal(page, whole[at:at+int64(len(page))]) {
			t.Errorf("a page from %d on: %v", at, err)
		}
		at += int64(len(page))
	}
	twice := slices.Clone(whole)
	if err := conversation.Compact(key, w.format, 0, cut, twice); err != nil || !slices.Equal(twice, whole) {
		t.Errorf("compacted twice: %v", err)
	}
}

// Results go, the oldest first, until there is room, and no longer.
func TestWhatIsLeftOutIsNoMoreThanAskedFor(t *testing.T) {
	t.Parallel()
	b := book(t)
	all := []string{hello}
	for i := range 5 {
		all = append(all, fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"%d","name":"x","input":{}}]}`, i),
			fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"%d","content":"%s"}]}`, i, strings.Repeat("x", 2000)))
	}
	appended(t, b, follows(0, all...))
	head, _, err := b.Load(t.Context(), key, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for tokens, want := range map[int64]int64{1 << 62: 0, 3000: 0, 2500: 3, 2000: 5, 1700: 7, 1: 9} {
		if cut, err := b.CompactBefore(t.Context(), key, &head, conversation.Compaction{ToTokens: tokens}); err != nil || cut != want {
			t.Errorf("to %d tokens: before %d, want %d: %v", tokens, cut, want, err)
		}
	}
}

func TestWhatCompactionRefuses(t *testing.T) {
	t.Parallel()
	b := book(t)
	appended(t, b, follows(0, hello, calling, results))
	head, _, err := b.Load(t.Context(), key, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for field, c := range map[string]conversation.Compaction{"compact_after_turns": {AfterTurns: -1}, "compact_to_tokens": {ToTokens: -1}} {
		_, err := b.CompactBefore(t.Context(), key, &head, c)
		if wrong, ok := errors.AsType[*conversation.Invalid](err); !ok || wrong.Field != field {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A reference is its conversation's: of others, and of what it was not made for, there is
// nothing behind it.
func TestAResultThatWasLeftOutIsItsConversations(t *testing.T) {
	t.Parallel()
	b, long := book(t), strings.ReplaceAll(results, "done", strings.Repeat("done", 100))
	for _, id := range []string{key.ID, "other"} {
		a := follows(0, hello, calling, long)
		a.Key.ID = id
		appended(t, b, a)
	}
	_, messages, err := b.Load(t.Context(), key, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := conversation.Compact(key, provider.Anthropic, 0, 3, messages); err != nil {
		t.Fatal(err)
	}
	ref := regexp.MustCompile(`msg_[A-Za-z0-9_-]+`).FindString(messages[2].JSON)
	if text, err := b.Result(t.Context(), key, ref); err != nil || text != strings.Repeat("done", 100) {
		t.Fatalf("%q %v", text, err)
	}
	other, theirs := key, key
	other.ID, theirs.Tenant = "other", "another"
	for what, c := range map[string]struct {
		key conversation.Key
		ref string
	}{
		"another conversation": {other, ref}, "another tenant": {theirs, ref}, "none": {conversation.Key{Tenant: key.Tenant, ID: "none"}, ref},
		"another sum": {key, "msg_" + strings.Repeat("A", 22) + ref[26:]}, "no place": {key, ref[:26]}, "another place": {key, ref[:26] + "_______8"}, "no reference": {key, "msg_x"},
		"a later message": {key, ref[:26] + "BGE"},
	} {
		if text, err := b.Result(t.Context(), c.key, c.ref); !errors.Is(err, conversation.ErrNone) {
			t.Errorf("%s: %q %v", what, text, err)
		}
	}
}

// Whatever is appended, and however it is compacted: it stays what its provider takes,
// message for message, and what is left out is read back.
func FuzzCompact(f *testing.F) {
	long := strings.Repeat("x", 300)
	f.Add("anthropic", hello+"\n"+calling+"\n"+strings.ReplaceAll(results, "done", long)+"\n"+calling, 1, int64(0))
	f.Add("openai", `{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"x","arguments":"{}"}}]}`+"\n"+`{"role":"tool","tool_call_id":"a","content":"`+long+`"}`+"\n"+`{"role":"assistant","tool_calls":[{"id":"a"}]}`, 0, int64(1))
	f.Add("openai-responses", `{"type":"function_call","call_id":"a","name":"x"}`+"\n"+`{"type":"function_call_output","call_id":"a","output":["`+long+`"]}`+"\n"+`{"type":"function_call","call_id":"a"}`, 1, int64(1))
	f.Fuzz(func(t *testing.T, format, text string, turns int, tokens int64) {
		b := book(t)
		b.Limits.Messages = 10_000
		a := follows(0, strings.Split(text, "\n")...)
		a.Provider = provider.Format(format)
		if _, err := b.Append(t.Context(), a); err != nil {
			return
		}
		head, messages, err := b.Load(t.Context(), key, 0, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		cut, err := b.CompactBefore(t.Context(), key, &head, conversation.Compaction{AfterTurns: turns, ToTokens: tokens})
		if err != nil {
			return
		}
		if err := conversation.Compact(key, head.Provider, 0, cut, messages); err != nil {
			t.Fatal(err)
		}
		fresh := a
		fresh.Key.ID, fresh.Messages = "fresh", texts(messages)
		if _, err := b.Append(t.Context(), fresh); err != nil {
			t.Fatalf("compacted, it is refused: %v", err)
		}
		for i, m := range messages {
			if len(m.JSON) > len(a.Messages[i]) {
				t.Errorf("message %d has %d bytes, and had %d", i, len(m.JSON), len(a.Messages[i]))
			}
			for _, ref := range regexp.MustCompile(`msg_[A-Za-z0-9_-]{24,}`).FindAllString(m.JSON, -1) {
				if _, err := b.Result(t.Context(), key, ref); err != nil && !strings.Contains(text, ref) {
					t.Errorf("message %d: %s: %v", i, ref, err)
				}
			}
		}
	})
}
