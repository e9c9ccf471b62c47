package redisfault

import (
	"slices"
	"testing"
)

const (
	admitCall  = "*5\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n$1\r\n1\r\n$5\r\n{k}/1\r\n$4\r\na\r\nb\r\n"
	pingCall   = "*1\r\n$4\r\nping\r\n"
	setCall    = "*3\r\n$3\r\nset\r\n$1\r\nk\r\n$0\r\n\r\n"
	wonReply   = "*4\r\n:1\r\n:1\r\n:1700000000000\r\n:1700000030000\r\n"
	pongReply  = "+PONG\r\n"
	nullReply  = "$-1\r\n"
	bulkReply  = "$9\r\n$5\r\n*3\r\n\n\r\n"
	errorReply = "-NOSCRIPT No matching script.\r\n"
)

func TestRepliesFindTheirCommands(t *testing.T) {
	t.Parallel()
	w := &wire{}
	w.asks([]byte(pingCall + admitCall + admitCall + setCall + admitCall))
	admit := command{name: "evalsha", script: "abc", key: "{k}/1"}
	set := command{name: "set", script: "k"}
	got := w.answers([]byte(pongReply + wonReply + errorReply + nullReply + bulkReply))
	at := 0
	var want []answer
	for _, a := range []struct {
		command command
		reply   string
		head    string
	}{
		{command{name: "ping"}, pongReply, pongReply},
		{admit, wonReply, wonReply[:16]},
		{admit, errorReply, "-NOSCRIPT No mat"},
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
	calls, replies := admitCall+pingCall+admitCall, wonReply+pongReply+bulkReply
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
		if want := []int{0, len(wonReply), len(wonReply + pongReply)}; !slices.Equal(begins, want) {
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
