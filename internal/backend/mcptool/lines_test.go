package mcptool

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sidecall/sidecall/internal/backend/lines"
)

func TestTheRequestThatAGiantAnswers(t *testing.T) {
	filler := strings.Repeat("x", 3*lines.KeepOfGiant)
	for name, tt := range map[string]struct {
		message string
		want    int // 0 for none
	}{
		"id first":                {`{"jsonrpc":"2.0","id":7,"result":{"a":"` + filler + `"}}`, 7},
		"id last":                 {`{"result":{"a":"` + filler + `"},"jsonrpc":"2.0","id":7}`, 7},
		"id before the version":   {`{"result":{"a":"` + filler + `"},"id":7,"jsonrpc":"2.0"}`, 7},
		"an error":                {`{"jsonrpc":"2.0","id":7,"error":{"message":"` + filler + `"}}`, 7},
		"what is long first":      {`{"jsonrpc":"2.0","id":7,"_meta":"` + filler + `","result":{}}`, 7},
		"spaces":                  {`{ "jsonrpc" : "2.0" , "result" : {"a":"` + filler + `"} , "id" : 7 } `, 7},
		"an id inside the result": {`{"jsonrpc":"2.0","result":{"a":"` + filler + `","b":{"id":9}}}`, 0},
		"a request":               {`{"jsonrpc":"2.0","id":7,"method":"x","params":"` + filler + `"}`, 0},
		"a notification":          {`{"method":"x","params":{"a":"` + filler + `","id":7}}`, 0},
		"a request, all of it":    {`{"jsonrpc":"2.0","id":7,"params":{"a":"` + filler + `"},"method":"x"}`, 0},
		"a request, method last":  {`{"params":"` + filler + `","id":7}`, 0},
		"a string id":             {`{"result":"` + filler + `","id":"7"}`, 0},
		"not JSON":                {filler, 0},
		"an array":                {`[{"id":7,"result":"` + filler + `"}]`, 0},
	} {
		head := []byte(tt.message[:lines.KeepOfGiant])
		tail := []byte(tt.message[len(tt.message)-lines.KeepOfGiant:])
		id, ok := identify(head, tail)
		if ok != (tt.want != 0) || (ok && id != idOf([]byte(strconv.Itoa(tt.want)))) {
			t.Errorf("%s: id is %v, %v", name, id.Raw(), ok)
		}
	}
	if idOf([]byte("{}")) != (jsonrpc.ID{}) {
		t.Error("an object became an id")
	}
}

// An answer is that of its request where its server has made a text of the id; what a server asks has its own ids.
func TestAnIDOfWhichAServerMakesAText(t *testing.T) {
	for message, want := range map[string]string{
		`{"jsonrpc":"2.0","id":"7","result":{}}`: "7", `{"jsonrpc":"2.0","id":7,"result":{}}`: "7",
		`{"jsonrpc":"2.0","id":"q7","result":{}}`: `"q7"`, `{"jsonrpc":"2.0","id":"7","method":"ping"}`: `"7"`,
	} {
		var id jsonrpc.ID
		switch msg, err := decode([]byte(message)); msg := msg.(type) {
		case *jsonrpc.Response:
			id = msg.ID
		case *jsonrpc.Request:
			id = msg.ID
		default:
			t.Fatalf("%s: %v", message, err)
		}
		if id != idOf([]byte(want)) {
			t.Errorf("%s: %v", message, id.Raw())
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add("a\nb", 10)
	f.Add(strings.Repeat("x", 100)+"\n{}", 7)
	f.Fuzz(func(t *testing.T, in string, limit int) {
		from := lines.New(strings.NewReader(in), max(1, min(limit, 1000)), 16)
		total := int64(0)
		for {
			ln, err := from.Next()
			if err != nil {
				break
			}
			total += ln.Size
			if ln.Giant {
				identify(ln.Text, ln.Tail)
			} else if !strings.Contains(in, string(ln.Text)) {
				t.Errorf("%q is no part of the input", ln.Text)
			}
		}
		if total != int64(len(in)) {
			t.Errorf("%d bytes of %d were read", total, len(in))
		}
	})
}

func ExampleConfig() {
	_, err := New(Config{Name: "files", Command: []string{"npx", "-y", "@modelcontextprotocol/server-filesystem", "/data"}})
	fmt.Println(err)
	// Output: <nil>
}

// What is shown of a long text has no half of a word at its end.
func TestTheBeginningOfALongText(t *testing.T) {
	for text, want := range map[string]string{"a token": "a token", "the token": "the…", "onetoken": "onet…", "": ""} {
		if got := begun(text, 7); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
