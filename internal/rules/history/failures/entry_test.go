package failures

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/tool"
)

// large is a failure of which everything is as large as it can be.
func large() *Failure {
	args := map[string]any{}
	for i := range 100 {
		args[fmt.Sprintf("%s%d", strings.Repeat("n", 60), i)] = strings.Repeat("日", 1000)
	}
	return &Failure{
		Operation: strings.Repeat("o", 1000), Target: strings.Repeat("日", 1000), Code: tool.CodeDependencyUnavailable,
		Error: strings.Repeat("日", 10_000), Arguments: args, At: noon,
	}
}

func TestAnEntryIsReadAsItWasWritten(t *testing.T) {
	small := &Failure{Operation: "get_order", Target: "A-9", Code: tool.CodeNotFound, Error: "no order", At: noon, Arguments: map[string]any{"order_id": "A-9", "n": json.Number("5")}}
	for name, f := range map[string]*Failure{"small": small, "large": large(), "nothing": {}, "odd": {Operation: "\xff\x00", Error: "\xff", At: noon.AddDate(-100, 0, 0)}} {
		shown := []suggestion{{id: 1}, {id: 1<<32 - 1}}
		e := brief(f, shown).whole(f, pastOf(f))
		b := e.encode()
		got, ok := decode(b)
		if !ok || len(b) > MaxEntryBytes {
			t.Fatalf("%s: %d bytes, read: %v", name, len(b), ok)
		}
		if !bytes.Equal(got.encode(), b) {
			t.Errorf("%s: written again it is another: %+v", name, got)
		}
		if name == "small" && !reflect.DeepEqual(got, *e) {
			t.Errorf("got %+v, want %+v", got, *e)
		}
	}
	if b := brief(small, nil).encode(); len(b) > 60 {
		t.Errorf("a short entry has %d bytes", len(b))
	}
}

func TestWhatCannotBeReadIsPassedOver(t *testing.T) {
	f := &Failure{Operation: "get_order", Target: "A-9", Code: tool.CodeNotFound, At: noon}
	good := brief(f, nil).whole(f, pastOf(f)).encode()
	newer := bytes.Clone(good)
	newer[0] = version + 1
	for name, b := range map[string][]byte{
		"nothing": nil, "another version": newer, "cut off": good[:len(good)-1], "with more behind it": append(bytes.Clone(good), 0),
		"too long": append(bytes.Clone(good), make([]byte, MaxEntryBytes)...), "an endless number": append([]byte{version}, bytes.Repeat([]byte{0xff}, 20)...),
		"a length that is not there": {version, 90, 'a'}, "text": []byte("hello"),
	} {
		if _, ok := decode(b); ok {
			t.Errorf("%s was read", name)
		}
		f.Earlier = [][]byte{b, good, b}
		if got := len(pastOf(f).earlier); got != 1 {
			t.Errorf("%s: %d attempts are known, want the one that can be read", name, got)
		}
	}
	f.Earlier = [][]byte{brief(&Failure{Operation: "other", Target: "A-9"}, nil).encode(), brief(&Failure{Operation: "get_order", Target: "A-8"}, nil).encode()}
	if got := len(pastOf(f).earlier); got != 0 {
		t.Errorf("%d attempts at something else count", got)
	}
}

func TestNamesOfLogs(t *testing.T) {
	seen := map[string]string{RecentLog: "the conversation's"}
	for _, pair := range [][2]string{{"a", "b"}, {"ab", ""}, {"", "ab"}, {"a\x00b", ""}, {"a", "\x00b"}, {"a/{x}#", "y"}, {strings.Repeat("a", 600), "b"}, {strings.Repeat("a", 600), "c"}} {
		name := LogOf(pair[0], pair[1])
		if name != LogOf(pair[0], pair[1]) || len(name) > 32 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			t.Errorf("%q: the name %q", pair, name)
		}
		if other, taken := seen[name]; taken && pair != [2]string{"a", "\x00b"} { // a tool's name has no NUL
			t.Errorf("%q has the log of %s", pair, other)
		}
		seen[name] = fmt.Sprint(pair)
	}
}

// What names the log is paid by calls that work.
func TestTheNameOfALogCostsLittle(t *testing.T) {
	targeting, err := NewTargeting([]string{"order_id"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	args := map[string]any{"order_id": "A-9", "cents": json.Number("5")}
	var name string
	if n := testing.AllocsPerRun(100, func() { name = LogOf("refund", targeting.Of(args)) }); n > 1 {
		t.Errorf("%v allocations for %s, want that of the name", n, name)
	}
}

// FuzzDecode: no bytes break the reading, and what is read is bounded and can be
// written again.
func FuzzDecode(f *testing.F) {
	big := large()
	for _, failure := range []*Failure{big, {}, {Operation: "a", Target: "b", Code: "c", Error: "d", Arguments: map[string]any{"x": nil}}} {
		f.Add(brief(failure, []suggestion{{id: 7}}).whole(failure, pastOf(failure)).encode())
	}
	f.Add([]byte{version, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, ok := decode(b)
		if !ok {
			return
		}
		again, ok := decode(e.encode())
		if !ok || !reflect.DeepEqual(e, again) {
			t.Errorf("%x was read as %+v, and then as %+v", b, e, again)
		}
		a, _ := New(Options{MaxChars: 400})
		failure := &Failure{Operation: e.operation, Target: e.target, Code: tool.CodeNotFound, Error: e.message, At: noon, Logs: Logs{Earlier: [][]byte{b, b}, Recent: [][]byte{b}}}
		wantBounded(t, a.Explain(failure), 400)
	})
}
