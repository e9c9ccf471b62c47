package mcptool

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

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

// An event is read as far as there is room for it.
func TestAnEventIsReadAsFarAsThereIsRoom(t *testing.T) {
	text := strings.Repeat("x", 1<<20)
	for left, fits := range map[allowance]bool{10 << 10: false, 100 << 10: false, 4 << 20: true} {
		from := lines.New(strings.NewReader(text+"\nnext\n"), 10<<20, 4<<10)
		from.Memory = &left
		ln, err := from.Next()
		if err != nil || ln.Giant == fits || ln.Size != int64(len(text))+1 {
			t.Errorf("with room for %d: a line of %d bytes, giant %v, %v", left, ln.Size, ln.Giant, err)
		}
		if ln, err = from.Next(); err != nil || string(ln.Text) != "next" {
			t.Errorf("with room for %d: then %q, %v", left, ln.Text, err)
		}
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
