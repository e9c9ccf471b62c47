package mcptool

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"
)

// witness is a watcher that remembers.
type witness struct {
	signs    int
	expired  bool
	progress []string
	backlog
}

func (w *witness) doubt()                       {}
func (w *witness) heard()                       { w.signs++ }
func (w *witness) expire()                      { w.expired = true }
func (w *witness) progressed(p json.RawMessage) { w.progress = append(w.progress, string(p)) }

func TestEventsThatReachTheSDK(t *testing.T) {
	const (
		answer7 = `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"hi"}]}}`
		other   = `{"jsonrpc":"2.0","id":8,"result":{}}`
		changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
		ping    = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		stub7   = `{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"captured"}}`
	)
	big := strings.Repeat("x", 2000)
	for name, tt := range map[string]struct {
		in      string
		want    string
		outcome outcome
		lastID  string
	}{
		"the answer becomes a stub":      {in: "event: message\ndata: " + answer7 + "\n\n", want: "data: " + stub7 + "\n\n", outcome: resulted},
		"nothing is read after it":       {in: "data: " + answer7 + "\n\ndata: " + changed + "\n\n", want: "data: " + stub7 + "\n\n", outcome: resulted},
		"in several lines":               {in: "data: {\"jsonrpc\":\"2.0\",\"id\":7,\ndata:\"result\":{}}\n\n", want: "data: " + stub7 + "\n\n", outcome: resulted},
		"without its empty line":         {in: "data: " + answer7, want: "data: " + stub7 + "\n\n", outcome: resulted},
		"cut off":                        {in: "data: " + answer7[:40], want: ""},
		"an error":                       {in: `data: {"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}` + "\n\n", want: "data: " + stub7 + "\n\n", outcome: refused},
		"another answer passes":          {in: "data: " + other + "\n\n", want: "data: " + other + "\n\n"},
		"a change passes":                {in: "id: 4\ndata: " + changed + "\n\n", want: "id: 4\ndata: " + changed + "\n\n", lastID: "4"},
		"a request passes":               {in: "data: " + ping + "\n\n", want: "data: " + ping + "\n\n"},
		"priming passes":                 {in: "id: 5\nretry: 10\ndata:\n\n", want: "id: 5\nretry: 10\n\n", lastID: "5"},
		"log messages are dropped":       {in: "id: 6\ndata: " + `{"jsonrpc":"2.0","method":"notifications/message","params":{}}` + "\n\n", want: "id: 6\n\n", lastID: "6"},
		"comments are dropped":           {in: ": hello\n\n:\n\n", want: ""},
		"other kinds of events":          {in: "event: endpoint\ndata: /x\n\n", want: ""},
		"what is no message":             {in: "data: nonsense\n\ndata: {}\n\nnonsense\n\n" + "data: " + other + "\n\n", want: "data: " + other + "\n\n"},
		"a giant that is no answer":      {in: "data: {\"method\":\"x\",\"params\":\"" + big + "\"}\n\ndata: " + other + "\n\n", want: "data: " + other + "\n\n"},
		"a giant answer":                 {in: `data: {"jsonrpc":"2.0","id":7,"result":"` + big + "\"}\n\n", want: "data: " + stub7 + "\n\n", outcome: tooLarge},
		"a giant answer in many lines":   {in: `data: {"jsonrpc":"2.0","id":7,"result":["` + strings.Repeat("\ndata: \"x\",", 300) + "\ndata: 1]}\n\n", want: "data: " + stub7 + "\n\n", outcome: tooLarge},
		"a giant answer to another call": {in: `data: {"jsonrpc":"2.0","id":8,"result":"` + big + "\"}\n\n", want: ""},
	} {
		for how, slow := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "by byte": iotest.OneByteReader} {
			seen := new(witness)
			w := &wire{limit: 1000, log: slog.New(slog.DiscardHandler), watch: seen}
			c := &capture{method: methodCall}
			e := newEvents(io.NopCloser(slow(strings.NewReader(tt.in))), w, makeID(float64(7)), c)
			got, err := io.ReadAll(e)
			if err != nil {
				t.Errorf("%s, %s: %v", name, how, err)
			}
			if string(got) != tt.want {
				t.Errorf("%s, %s: the SDK reads %q, want %q", name, how, got, tt.want)
			}
			if a, _, _ := c.done(); a.outcome != tt.outcome {
				t.Errorf("%s, %s: outcome is %d, want %d", name, how, a.outcome, tt.outcome)
			}
			if e.lastID != tt.lastID {
				t.Errorf("%s, %s: last id is %q", name, how, e.lastID)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestProgressComesBeforeTheAnswer(t *testing.T) {
	seen := new(witness)
	w := &wire{limit: 1000, log: slog.New(slog.DiscardHandler), watch: seen}
	in := "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"a\"}}\n\n"
	got, err := io.ReadAll(newEvents(io.NopCloser(strings.NewReader(in)), w, makeID(nil), nil))
	if err != nil || len(got) != 0 || len(seen.progress) != 1 || seen.progress[0] != `{"progressToken":"a"}` {
		t.Errorf("%q, %v, progress %q", got, err, seen.progress)
	}
}

func TestAStreamThatBreaksSaysSo(t *testing.T) {
	w := &wire{limit: 1000, log: slog.New(slog.DiscardHandler), watch: new(witness)}
	broken := errors.New("reset")
	in := io.MultiReader(strings.NewReader("data: {\"json"), iotest.ErrReader(broken))
	got, err := io.ReadAll(newEvents(io.NopCloser(in), w, makeID(nil), nil))
	if !errors.Is(err, broken) || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n")
	f.Add("data: [\n\n\ndata\n:\nretry:x\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		w := &wire{limit: 64, log: slog.New(slog.DiscardHandler), watch: new(witness)}
		c := &capture{method: methodCall}
		e := newEvents(io.NopCloser(strings.NewReader(in)), w, makeID(float64(7)), c)
		if _, err := io.ReadAll(e); err != nil {
			t.Error(err)
		}
	})
}
