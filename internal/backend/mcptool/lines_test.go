package mcptool

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sidecall/sidecall/internal/backend/lines"
)

func TestLinesOfAnyLength(t *testing.T) {
	long := strings.Repeat("0123456789", 10_000)
	for name, tt := range map[string]struct {
		in    string
		want  []string
		giant int // which line
	}{
		"nothing":            {in: "", giant: -1},
		"two":                {in: "a\nb\n", want: []string{"a", "b"}, giant: -1},
		"carriage returns":   {in: "a\r\n\r\nb\r\n", want: []string{"a", "", "b"}, giant: -1},
		"no end":             {in: "a\nb", want: []string{"a", "b"}, giant: -1},
		"as long as allowed": {in: strings.Repeat("x", 19_999) + "\nb\n", want: []string{strings.Repeat("x", 19_999), "b"}, giant: -1},
		"a giant":            {in: "a\n" + long + "\nb\n", want: []string{"a", long, "b"}, giant: 1},
		"a giant at the end": {in: "a\n" + long, want: []string{"a", long}, giant: 1},
	} {
		for how, r := range map[string]io.Reader{
			"at once":   strings.NewReader(tt.in),
			"in halves": iotest.HalfReader(strings.NewReader(tt.in)),
			"by byte":   iotest.OneByteReader(strings.NewReader(tt.in)),
		} {
			from := lines.New(r, 20_000, 4096)
			for i, want := range tt.want {
				ln, err := from.Next()
				if err != nil {
					t.Fatalf("%s, %s: line %d: %v", name, how, i, err)
				}
				if i != tt.giant {
					if ln.Giant || string(ln.Text) != want {
						t.Errorf("%s, %s: line %d has %d bytes, giant %v", name, how, i, len(ln.Text), ln.Giant)
					}
					continue
				}
				if !ln.Giant || !strings.HasPrefix(want, string(ln.Text)) || !strings.HasSuffix(want, string(ln.Tail)) {
					t.Errorf("%s, %s: a giant is %+v", name, how, ln)
				}
				if len(ln.Text) != lines.KeepOfGiant || cap(ln.Tail) > 10*lines.KeepOfGiant || len(ln.Tail) < 100 {
					t.Errorf("%s, %s: of a giant %d and %d bytes are kept", name, how, len(ln.Text), len(ln.Tail))
				}
				if ln.Size < int64(len(want)) {
					t.Errorf("%s, %s: a giant has %d bytes", name, how, ln.Size)
				}
			}
			if _, err := from.Next(); !errors.Is(err, io.EOF) {
				t.Errorf("%s, %s: at the end: %v", name, how, err)
			}
		}
	}
}

func TestTheRequestThatAGiantAnswers(t *testing.T) {
	filler := strings.Repeat("x", 3*lines.KeepOfGiant)
	for name, tt := range map[string]struct {
		message string
		want    float64 // 0 for none
	}{
		"id first":                {`{"jsonrpc":"2.0","id":7,"result":{"a":"` + filler + `"}}`, 7},
		"id last":                 {`{"result":{"a":"` + filler + `"},"jsonrpc":"2.0","id":7}`, 7},
		"id before the version":   {`{"result":{"a":"` + filler + `"},"id":7,"jsonrpc":"2.0"}`, 7},
		"an error":                {`{"jsonrpc":"2.0","id":7,"error":{"message":"` + filler + `"}}`, 7},
		"spaces":                  {`{ "jsonrpc" : "2.0" , "result" : {"a":"` + filler + `"} , "id" : 7 } `, 7},
		"an id inside the result": {`{"jsonrpc":"2.0","result":{"a":"` + filler + `","b":{"id":9}}}`, 0},
		"a request":               {`{"jsonrpc":"2.0","id":7,"method":"x","params":"` + filler + `"}`, 0},
		"a notification":          {`{"method":"x","params":{"a":"` + filler + `","id":7}}`, 0},
		"a request, method last":  {`{"params":"` + filler + `","id":7}`, 0},
		"a string id":             {`{"result":"` + filler + `","id":"7"}`, 0},
		"not JSON":                {filler, 0},
		"an array":                {`[{"id":7,"result":"` + filler + `"}]`, 0},
	} {
		head := []byte(tt.message[:lines.KeepOfGiant])
		tail := []byte(tt.message[len(tt.message)-lines.KeepOfGiant:])
		id, ok := identify(head, tail)
		if ok != (tt.want != 0) || (ok && id != makeID(tt.want)) {
			t.Errorf("%s: id is %v, %v", name, id.Raw(), ok)
		}
	}
	if makeID(map[string]any{}) != (jsonrpc.ID{}) {
		t.Error("an object became an id")
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
