package redisfault

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

const (
	pingCall   = "*1\r\n$4\r\nping\r\n"
	setCall    = "*3\r\n$3\r\nset\r\n$1\r\nk\r\n$0\r\n\r\n"
	doneReply  = ":1700000000000\r\n"
	pongReply  = "+PONG\r\n"
	nullReply  = "$-1\r\n"
	bulkReply  = "$9\r\n$5\r\n*3\r\n\n\r\n"
	errorReply = "-NOSCRIPT No matching script.\r\n"
)

// called is a command on the wire.
func called(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// planned is the plan of a step that has read a number of rows; a write is its letter and
// the number of its key.
func planned(read byte, writes ...string) string {
	plan := strings.Repeat("\x00", planHead-1) + string([]byte{read})
	for _, w := range writes {
		plan += w[:1] + string([]byte{0, w[1] - '0'}) + "\x0210"
	}
	return plan
}

func recordIn(state dedupe.State) string {
	stored := dedupe.Stored{Record: dedupe.Record{State: state, Epoch: 1, Owner: "o", Result: []byte("\r\n$5\r\n")}, Retention: time.Hour}
	return string(stored.AppendSealed(nil))
}

// admitCall claims a call with a charge.
var admitCall = called("EVALSHA", "abc", "2", "{k}/1", "budget/{k}/p", planned(2, "T1", "S2"), "", "1 0 0 5", recordIn(dedupe.Claimed), "2 0 0 5")

// What a step writes is told by its plan: whatever else it reads and writes.
func TestWhatAStepWrites(t *testing.T) {
	t.Parallel()
	claimed, done := recordIn(dedupe.Claimed), recordIn(dedupe.Done)
	for name, c := range map[string]struct {
		words []string
		want  command
	}{
		"a claim":                     {[]string{"1", "a", planned(1, "T1"), "", claimed}, command{key: "a", writes: dedupe.Claimed}},
		"a settlement":                {[]string{"1", "a", planned(1, "T1"), claimed, done}, command{key: "a", writes: dedupe.Done}},
		"given back":                  {[]string{"1", "a", planned(1, "T1"), claimed, recordIn(dedupe.NotRun)}, command{key: "a", writes: dedupe.NotRun}},
		"behind a tally and a log":    {[]string{"3", "t", "a", "l", planned(2, "K1", "d1", "L3", "T2", "P2"), "1 0 0 5", claimed, "0 0 0 5", "log", done, "hints"}, command{key: "a", writes: dedupe.Done}},
		"beside a hint and an output": {[]string{"2", "a", "o", planned(1, "w1", "e1", "n1", "S2"), claimed, "\x01output of some length"}, command{}},
		"a look":                      {[]string{"1", "a", planned(1), claimed}, command{}},
		"a record that is none":       {[]string{"1", "a", planned(1, "T1"), "", claimed[:len(claimed)-1]}, command{}},
		"a text is missing":           {[]string{"1", "a", planned(1, "T1"), claimed}, command{}},
		"a key that is none":          {[]string{"1", "a", planned(1, "T2"), "", claimed}, command{}},
		"no plan":                     {[]string{"1", "a"}, command{}},
		"another script":              {[]string{"1", "a", "5", claimed}, command{}},
		"no number":                   {[]string{"x", "a", planned(0)}, command{}},
	} {
		w := &wire{}
		w.asks([]byte(called(append([]string{"evalsha", "abc"}, c.words...)...)))
		c.want.name = "evalsha"
		if len(w.asked) != 1 || w.asked[0] != c.want {
			t.Errorf("%s is read as %+v, want %+v", name, w.asked, c.want)
		}
	}
}

func TestRepliesFindTheirCommands(t *testing.T) {
	t.Parallel()
	w := &wire{}
	w.asks([]byte(pingCall + admitCall + admitCall + setCall + admitCall))
	admit := command{name: "evalsha", key: "{k}/1", writes: dedupe.Claimed}
	set := command{name: "set"}
	got := w.answers([]byte(pongReply + doneReply + errorReply + nullReply + bulkReply))
	at := 0
	var want []answer
	for _, a := range []struct {
		command command
		reply   string
		head    string
	}{
		{command{name: "ping"}, pongReply, pongReply},
		{admit, doneReply, doneReply},
		{admit, errorReply, errorReply[:headLength]},
		{set, nullReply, nullReply},
		{admit, bulkReply, bulkReply},
	} {
		want = append(want, answer{a.command, at, a.head})
		at += len(a.reply)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := w.answers([]byte(pongReply)); got != nil {
		t.Errorf("an answer to nothing: %+v", got)
	}
}

// Wherever a packet ends, the same replies find the same commands.
func TestTornPackets(t *testing.T) {
	t.Parallel()
	calls, replies := admitCall+pingCall+admitCall, doneReply+pongReply+bulkReply
	for most := 1; most < 40; most++ {
		w := &wire{}
		for chunk := range slices.Chunk([]byte(calls), most) {
			w.asks(chunk)
		}
		var names []string
		var begins []int
		at := 0
		for chunk := range slices.Chunk([]byte(replies), most) {
			for _, a := range w.answers(chunk) {
				names, begins = append(names, a.name), append(begins, at+a.begin)
			}
			at += len(chunk)
		}
		if !slices.Equal(names, []string{"evalsha", "ping", "evalsha"}) {
			t.Errorf("in pieces of %d: %v", most, names)
		}
		if want := []int{0, len(doneReply), len(doneReply + pongReply)}; !slices.Equal(begins, want) {
			t.Errorf("in pieces of %d: begin at %v, want %v", most, begins, want)
		}
	}
}

// What is no Redis protocol is followed without harm.
func TestWhatIsNoCommand(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\r\n", "PING\r\n", "*x\r\n", "*-1\r\n", "$5\r\nhello\r\n", "*1\r\n:5\r\n", "*2\r\n$4\r\nPING\r\n$x\r\n", "$99\r\nx\r\n"} {
		w := &wire{}
		w.asks([]byte(text))
		w.answers([]byte(text))
		for _, c := range w.asked {
			if c.key != "" {
				t.Errorf("%q is read as %+v", text, c)
			}
		}
	}
}

func TestWhichRepliesAreOfStepsThatWereDone(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]bool{
		":1763868000000\r\n":                                     true,
		"*2\r\n:1763868000000\r\n*1\r\n$5\r\nentry\r\n":          true,
		"*2\r\n:1763868000000\r\n$-1\r\n":                        false,
		"*3\r\n:1763868000000\r\n$-1\r\n$5\r\nother\r\n":         false,
		"-OOM command not allowed when used memory > 'max'.\r\n": false,
	} {
		if got := done.MatchString(reply[:min(len(reply), headLength)]); got != want {
			t.Errorf("%q: %v", reply, got)
		}
	}
}
