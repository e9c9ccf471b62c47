package mcptool

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
)

// wireTo is a wire that reads so many bytes of a message.
func wireTo(in *inbox, limit int) *wire {
	return &wire{limit: limit, log: slog.New(slog.DiscardHandler), inbox: in}
}

// asked is the capture of request 7 of an inbox.
func asked(in *inbox) *capture {
	c := new(capture)
	in.await(idOf([]byte("7")), c)
	return c
}

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
		"cut off, and its id with it":    {in: "id: 4\ndata:\n\nid: 5\nretry: 1\ndata: " + answer7[:40], want: "id: 4\n\n", lastID: "4"},
		"cut off within its id":          {in: "id: 4\ndata:\n\nid: 5", want: "id: 4\n\n", lastID: "4"},
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
		"a giant answer to another call": {in: `data: {"jsonrpc":"2.0","id":8,"result":"` + big + "\"}\n\n", want: `data: {"jsonrpc":"2.0","id":8,"error":{"code":-32603,"message":"the answer has 2043 bytes, more than is read"}}` + "\n\n"},
	} {
		for how, slow := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "by byte": iotest.OneByteReader} {
			in := newInbox()
			c := asked(in)
			e := newEvents(io.NopCloser(slow(strings.NewReader(tt.in))), wireTo(in, 1000), c)
			got, err := io.ReadAll(e)
			if err != nil {
				t.Errorf("%s, %s: %v", name, how, err)
			}
			if string(got) != tt.want {
				t.Errorf("%s, %s: the SDK reads %q, want %q", name, how, got, tt.want)
			}
			if a := in.done(c); a.outcome != tt.outcome {
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
	in, notes := newInbox(), []string(nil)
	defer in.watch("a", func(s backend.Sign) { notes = append(notes, s.Note) })()
	stream := "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"a\",\"progress\":1}}\n\n"
	got, err := io.ReadAll(newEvents(io.NopCloser(strings.NewReader(stream)), wireTo(in, 1000), nil))
	if err != nil || len(got) != 0 || len(notes) != 1 || notes[0] != "1" {
		t.Errorf("%q, %v, progress %q", got, err, notes)
	}
}

func TestAStreamThatBreaksSaysSo(t *testing.T) {
	broken := errors.New("reset")
	in := io.MultiReader(strings.NewReader("data: {\"json"), iotest.ErrReader(broken))
	got, err := io.ReadAll(newEvents(io.NopCloser(in), wireTo(newInbox(), 1000), nil))
	if !errors.Is(err, broken) || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n")
	f.Add("data: [\n\n\ndata\n:\nretry:x\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		box := newInbox()
		e := newEvents(io.NopCloser(strings.NewReader(in)), wireTo(box, 64), asked(box))
		if _, err := io.ReadAll(e); err != nil {
			t.Error(err)
		}
	})
}

// An answer goes to its call as it is, on whatever stream it comes.
func TestAnAnswerOnAnotherStreamGoesToItsCall(t *testing.T) {
	in := newInbox()
	c := asked(in)
	stream := `data: {"jsonrpc":"2.0","id":7,"result":{"z":9007199254740993,"task":{}}}` + "\n\n"
	if _, err := io.ReadAll(newEvents(io.NopCloser(strings.NewReader(stream)), wireTo(in, 1000), nil)); err != nil {
		t.Fatal(err)
	}
	if a := in.done(c); a.outcome != resulted || string(a.result) != `{"z":9007199254740993,"task":{}}` {
		t.Errorf("the call has %d, %s", a.outcome, a.result)
	}
}

// The request of a call ends with the call, and a while later where only the end of
// the stream is left to read.
func TestARequestOutlastsItsAnsweredCall(t *testing.T) {
	for name, tt := range map[string]struct {
		answered bool
		lasts    time.Duration
	}{"answered": {true, drainGrace}, "unanswered": {false, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				in := newInbox()
				c := asked(in)
				request, body := outlasting(ctx, c)
				defer body.end()
				if tt.answered {
					c.settle(answer{outcome: resulted})
				}
				began := time.Now()
				cancel()
				<-request.Done()
				if lasted := time.Since(began); lasted != tt.lasts {
					t.Errorf("it ended %s after the call", lasted)
				}
			})
		})
	}
}

// A request whose body is closed ends at once.
func TestARequestEndsWithItsBody(t *testing.T) {
	request, body := outlasting(t.Context(), new(capture))
	resp := body.of(&http.Response{Body: http.NoBody})
	if request.Err() != nil {
		t.Error("it ends too early")
	}
	if err := resp.Body.Close(); err != nil || request.Err() == nil {
		t.Errorf("it does not end: %v", err)
	}
}

// Nothing is sent for a call that is over.
func TestARequestOfACallThatIsOverHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request, body := outlasting(ctx, new(capture))
	defer body.end()
	if request.Err() == nil {
		t.Error("it may still be sent")
	}
}
