package redisstore

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// unknownRecord is a record as a script stores it, of an Unknown call.
func unknownRecord(owner, name string) string {
	stored := dedupe.Stored{
		Record:    dedupe.Record{State: dedupe.Unknown, Epoch: 1, Owner: owner, Tool: name},
		Retention: time.Hour,
	}
	return stamp(string(stored.AppendSealed(nil)), time.Now())
}

// SCAN may name a key more than once; its call is listed once on a page.
func TestAKeyThatIsNamedTwiceIsListedOnce(t *testing.T) {
	t.Parallel()
	one, two := RecordKey("sidecall:", request("one", 0).Key), RecordKey("sidecall:", request("two", 0).Key)
	f := startFake(t)
	f.answer = func(words []string) string {
		switch words[0] {
		case "scan":
			return "*2\r\n" + bulk("0") + "*4\r\n" + bulk(two) + bulk(one) + bulk(two) + bulk(two)
		case "getrange":
			return bulk(unknownRecord("alice", "refund")[:4])
		default:
			return fmt.Sprintf("*2\r\n:%d\r\n", time.Now().UnixMilli()) + bulk(unknownRecord("alice", "refund"))
		}
	}
	s := open(t, Options{Addrs: []string{f.addr}})
	page, err := s.ListOpen(t.Context(), "")
	if err != nil || page.Next != "" {
		t.Fatal(page.Next, err)
	}
	var ids []string
	for _, call := range page.Calls {
		ids = append(ids, call.Key.ID)
	}
	if got := strings.Join(ids, " "); got != "one two" {
		t.Errorf("listed %q", got)
	}
	if n := f.times("evalsha"); n != 2 {
		t.Errorf("read %d records", n)
	}
}

// A server that cannot answer just now is asked once more, as with every request: a
// listing is too long to be begun again for that.
func TestAListingOutlastsAServerThatIsBusy(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	busy := map[string]bool{"scan": true, "getrange": true}
	var mu sync.Mutex
	f.answer = func(words []string) string {
		mu.Lock()
		defer mu.Unlock()
		if busy[words[0]] {
			busy[words[0]] = false
			return "-LOADING the dataset is being loaded\r\n"
		}
		switch words[0] {
		case "scan":
			return "*2\r\n" + bulk("0") + "*1\r\n" + bulk(RecordKey("sidecall:", request("one", 0).Key))
		case "getrange":
			return bulk(unknownRecord("alice", "refund")[:4])
		default:
			return fmt.Sprintf("*2\r\n:%d\r\n", time.Now().UnixMilli()) + bulk(unknownRecord("alice", "refund"))
		}
	}
	s := open(t, Options{Addrs: []string{f.addr}})
	page, err := s.ListOpen(t.Context(), "")
	if err != nil || len(page.Calls) != 1 || f.times("scan") != 3 {
		t.Errorf("%d calls, scanned %d times, %v", len(page.Calls), f.times("scan"), err)
	}
}

// fake is a server that speaks as much of Redis's protocol as a store needs to
// meet the answers that a real one gives only at rare moments.
type fake struct {
	addr string
	// answer returns a reply as it is on the wire; empty closes the connection.
	// It is called in the order in which a connection's commands come.
	answer func(words []string) string

	// info is the answer to INFO; fit as it starts.
	info string

	mu    sync.Mutex
	heard []string // the names of commands, but those of a connection's start
	conns []net.Conn
}

// Replies on the wire.
const (
	replyOK  = "+OK\r\n"
	replyWon = ":1\r\n" // the step is done
)

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// startFake starts a fake whose answer may be set until a client comes.
func startFake(t *testing.T) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{addr: l.Addr().String(), info: bulk("maxmemory_policy:noeviction\r\naof_enabled:1\r\nrole:master\r\n")}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, conn)
			f.mu.Unlock()
			served.Go(func() { f.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // ends the loop
		f.hangUp()
		served.Wait()
	})
	return f
}

// hangUp closes every connection.
func (f *fake) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.conns {
		_ = conn.Close() // most are closed already
	}
}

func (f *fake) serve(conn net.Conn) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		words, err := readCommand(in)
		if err != nil {
			return
		}
		reply := f.reply(words)
		if reply == "" {
			return
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

func (f *fake) reply(words []string) string {
	switch words[0] = strings.ToLower(words[0]); words[0] {
	case "hello":
		return "-ERR unknown command\r\n"
	case "client":
		return replyOK
	}
	f.mu.Lock()
	f.heard = append(f.heard, words[0])
	f.mu.Unlock()
	if words[0] == "info" {
		return f.info
	}
	return f.answer(words)
}

// times is how often a command came.
func (f *fake) times(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(f.heard), func(s string) bool { return s != name }))
}

// readCommand reads an array of bulk strings.
func readCommand(in *bufio.Reader) ([]string, error) {
	n, err := readLength(in, '*')
	if err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		size, err := readLength(in, '$')
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
		words[i] = string(b[:size])
	}
	return words, nil
}

func readLength(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, errors.New("no command: " + line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// slotsOf is the answer to CLUSTER SLOTS when each of the masters has an equal
// share.
func slotsOf(masters ...*fake) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(masters))
	for i, m := range masters {
		host, port, _ := net.SplitHostPort(m.addr) // it is what the listener said
		first, last := i*16384/len(masters), (i+1)*16384/len(masters)-1
		fmt.Fprintf(&b, "*3\r\n:%d\r\n:%d\r\n*3\r\n%s:%s\r\n%s", first, last, bulk(host), port, bulk(fmt.Sprintf("%040d", i)))
	}
	return b.String()
}

// startFakeCluster starts masters that share the slots, and answer scripts as
// the functions say.
func startFakeCluster(t *testing.T, answers ...func(words []string) string) []*fake {
	t.Helper()
	masters := make([]*fake, len(answers))
	for i := range masters {
		masters[i] = startFake(t)
	}
	slots := slotsOf(masters...)
	for i, f := range masters {
		f.answer = func(words []string) string {
			if words[0] == "cluster" {
				return slots
			}
			return answers[i](words)
		}
	}
	return masters
}
