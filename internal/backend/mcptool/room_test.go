package mcptool

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/lines"
)

// allowance is a room of so many bytes.
type allowance int64

func (a *allowance) Take(n int64) bool {
	if int64(*a) < n {
		return false
	}
	*a -= allowance(n)
	return true
}

// An answer is read as far as there is room for it, in one piece or as an event.
func TestAnAnswerIsReadAsFarAsThereIsRoom(t *testing.T) {
	text := strings.Repeat("x", 1<<20)
	for left, fits := range map[allowance]bool{10 << 10: false, 100 << 10: false, 4 << 20: true} {
		room := left
		data, whole, err := readFitting(strings.NewReader(text), 10<<20, &room)
		if err != nil || whole != fits || whole != (len(data) == len(text)) || len(data) > int(left)+backend.Uncounted {
			t.Errorf("with room for %d: %d bytes, whole %v, %v", left, len(data), whole, err)
		}
		room = left
		from := lines.New(strings.NewReader(text+"\nnext\n"), 10<<20, 4<<10)
		from.Memory = &room
		ln, err := from.Next()
		if err != nil || ln.Giant == fits || ln.Size != int64(len(text))+1 {
			t.Errorf("with room for %d: a line of %d bytes, giant %v, %v", left, ln.Size, ln.Giant, err)
		}
		if ln, err = from.Next(); err != nil || string(ln.Text) != "next" {
			t.Errorf("with room for %d: then %q, %v", left, ln.Text, err)
		}
	}
	none := allowance(0)
	small := strings.Repeat("x", backend.Uncounted)
	for _, room := range []backend.Memory{&none, nil} {
		if data, whole, err := readFitting(strings.NewReader(small), 1<<20, room); err != nil || !whole || string(data) != small {
			t.Errorf("a small one: %d bytes, whole %v, %v", len(data), whole, err)
		}
	}
	if data, _, err := readFitting(io.LimitReader(strings.NewReader(text), 1<<20), 1000, &none); err != nil || len(data) != 1000 {
		t.Errorf("to its limit: %d bytes, %v", len(data), err)
	}
}

// A connection that breaks where the room ends has broken all the same.
func TestAnAnswerThatBreaksWhereTheRoomEnds(t *testing.T) {
	none := allowance(0)
	broken := io.MultiReader(strings.NewReader(strings.Repeat("x", backend.Uncounted)), iotest.ErrReader(io.ErrUnexpectedEOF))
	data, whole, err := readFitting(broken, 1<<20, &none)
	if !errors.Is(err, io.ErrUnexpectedEOF) || len(data) != backend.Uncounted {
		t.Errorf("%d bytes, whole %v, %v", len(data), whole, err)
	}
}

// On stdio an answer is one line, read before it is known whose it is; it is kept only
// where there is room for it, as over HTTP.
func TestAnAnswerOnStdioIsKeptWhereThereIsRoom(t *testing.T) {
	id, err := jsonrpc.MakeID(1.0)
	if err != nil {
		t.Fatal(err)
	}
	answered := &jsonrpc.Response{ID: id, Result: []byte(`{"content":[]}`)}
	for left, want := range map[allowance]outcome{0: tooLarge, 1 << 20: resulted} {
		room := left
		in, c := newInbox(), &capture{memory: &room}
		in.await(id, c)
		in.accept(answered, 1<<20, 0)
		if a := in.done(c); a.outcome != want || want == tooLarge && a.size != 1<<20 {
			t.Errorf("with room for %d: %+v", left, a)
		}
	}
}
