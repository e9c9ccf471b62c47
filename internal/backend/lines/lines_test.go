package lines

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
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
			from := New(r, 20_000, 4096)
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
				if len(ln.Text) != KeepOfGiant || cap(ln.Tail) > 10*KeepOfGiant || len(ln.Tail) < 100 {
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
