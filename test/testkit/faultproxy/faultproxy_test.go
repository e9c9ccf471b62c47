package faultproxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sidecall/sidecall/test/testkit/harness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon bounds what has to happen; shortly is how long something must not.
const (
	soon    = 20 * time.Second
	shortly = 50 * time.Millisecond
)

// server answers each line with its own name and the line.
type server struct {
	addr string
	mu   sync.Mutex
	got  []string
	seen chan string
}

func startServer(t *testing.T, name string) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: listener.Addr().String(), seen: make(chan string, 1000)}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { s.serve(name, conn) })
		}
	})
	// Registered before the proxy's, so it runs after it: its connections are gone.
	t.Cleanup(func() { _ = listener.Close(); conns.Wait() })
	return s
}

func (s *server) serve(name string, conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		s.mu.Lock()
		s.got = append(s.got, lines.Text())
		s.mu.Unlock()
		s.seen <- lines.Text()
		if _, err := fmt.Fprintf(conn, "%s: %s\n", name, lines.Text()); err != nil {
			return
		}
	}
	_, _ = fmt.Fprintf(conn, "%s: bye\n", name) // nobody may be there to hear it
}

func (s *server) await(t *testing.T, line string) {
	t.Helper()
	select {
	case got := <-s.seen:
		if got != line {
			t.Fatalf("the server got %q, want %q", got, line)
		}
	case <-time.After(soon):
		t.Fatalf("the server never got %q", line)
	}
}

func (s *server) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// client speaks lines through a proxy.
type client struct {
	net.Conn
	t     *testing.T
	lines *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // most have ended
	return &client{Conn: conn, t: t, lines: bufio.NewReader(conn)}
}

func (c *client) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) hear(within time.Duration) (string, error) {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		c.t.Fatal(err)
	}
	line, err := c.lines.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

// hearAll hears so many bytes, and then what follows within a second.
func (c *client) hearAll(bytes int) (string, error) {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(soon)); err != nil {
		c.t.Fatal(err)
	}
	first := make([]byte, bytes)
	if _, err := io.ReadFull(c.lines, first); err != nil {
		return string(first), err
	}
	rest, err := c.hear(time.Second)
	return string(first) + rest, err
}

func (c *client) wantHear(want string) {
	c.t.Helper()
	if got, err := c.hear(soon); got != want || err != nil {
		c.t.Fatalf("heard %q, %v; want %q", got, err, want)
	}
}

func (c *client) wantSilence() {
	c.t.Helper()
	if got, err := c.hear(shortly); !errors.Is(err, os.ErrDeadlineExceeded) || got != "" {
		c.t.Fatalf("heard %q, %v; want silence", got, err)
	}
}

func (c *client) wantEnd(heard string) error {
	c.t.Helper()
	got, err := c.hear(soon)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) || got != heard {
		c.t.Fatalf("heard %q, %v; want %q and the end", got, err, heard)
	}
	return err
}

func TestWithoutAFaultNothingChanges(t *testing.T) {
	s := startServer(t, "a")
	p := Start(t, s.addr)
	c := dial(t, p.Addr())
	c.say("hello")
	c.wantHear("a: hello")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.wantHear("a: bye") // one direction may end before the other
	if err := c.wantEnd(""); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if got, want := p.Counts(), (Counts{Connections: 1}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	harness.WaitFor(t, "the end of the connection", func() bool { return len(p.Conns()) == 0 })
}

func TestAMegabyteComesThroughWhole(t *testing.T) {
	for name, arrange := range map[string]func(*Proxy){
		"plain": func(*Proxy) {},
		"torn":  func(p *Proxy) { p.Split(100) },
		"late":  func(p *Proxy) { p.Delay(time.Millisecond, 2*time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, "a")
			p := Start(t, s.addr)
			arrange(p)
			c := dial(t, p.Addr())
			line := strings.Repeat("x", 60_000)
			var sent sync.WaitGroup
			sent.Go(func() {
				for range 17 {
					if _, err := io.WriteString(c, line+"\n"); err != nil {
						t.Error(err)
					}
				}
			})
			for range 17 {
				c.wantHear("a: " + line)
			}
			sent.Wait()
			counts := p.Counts()
			if torn, late := name == "torn", name == "late"; (counts.Torn > 0) != torn || (counts.Delayed > 0) != late {
				t.Errorf("counted %+v", counts)
			}
		})
	}
}

func TestDelay(t *testing.T) {
	s := startServer(t, "a")
	p := Start(t, s.addr)
	p.Delay(30*time.Millisecond, 20*time.Millisecond)
	c := dial(t, p.Addr())
	began := time.Now()
	c.say("hello")
	c.wantHear("a: hello")
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("it took %v, less than both delays", took)
	}
}

func TestSplitTearsEverywhere(t *testing.T) {
	var pieces [][]byte
	s := &stream{conn: newConn(&Proxy{seed: 7}, 1, nil, nil), to: writes(func(b []byte) { pieces = append(pieces, bytes.Clone(b)) })}
	s.conn.proxy.Split(3)
	text := []byte(strings.Repeat("abcdefg", 100))
	if err := s.send(text); err != nil {
		t.Fatal(err)
	}
	sizes := map[int]int{}
	for _, b := range pieces {
		sizes[len(b)]++
	}
	if !bytes.Equal(bytes.Join(pieces, nil), text) || len(sizes) != 3 || sizes[1] == 0 || sizes[3] == 0 {
		t.Errorf("pieces of %v", sizes)
	}
}

// writes is a connection that only takes writes.
type writes func([]byte)

func (w writes) Write(b []byte) (int, error)      { w(b); return len(b), nil }
func (writes) Read([]byte) (int, error)           { return 0, io.EOF }
func (writes) Close() error                       { return nil }
func (writes) LocalAddr() net.Addr                { return nil }
func (writes) RemoteAddr() net.Addr               { return nil }
func (writes) SetDeadline(time.Time) error        { return nil }
func (writes) SetReadDeadline(time.Time) error    { return nil }
func (writes) SetWriteDeadline(_ time.Time) error { return nil }

func TestCut(t *testing.T) {
	s := startServer(t, "a")
	p := Start(t, s.addr)
	one, two := dial(t, p.Addr()), dial(t, p.Addr())
	one.say("one REPLCONF listening-port 1")
	one.wantHear("a: one REPLCONF listening-port 1")
	two.say("two")
	two.wantHear("a: two")
	if n := p.CutWhere(func(c *Conn) bool { return c.Said("replconf") }); n != 1 {
		t.Errorf("cut %d", n)
	}
	one.wantEnd("")
	two.say("still here")
	two.wantHear("a: still here")
	if n := p.Cut(); n != 1 {
		t.Errorf("cut %d, the one that was left", n)
	}
	two.wantEnd("")
	if got := p.Counts().Cut; got != 2 {
		t.Errorf("counted %d", got)
	}
	three := dial(t, p.Addr())
	three.say("new")
	three.wantHear("a: new")
	if ids := p.Conns(); len(ids) != 1 || ids[0].ID() != 3 {
		t.Errorf("open: %v", ids)
	}
}

func TestRefuse(t *testing.T) {
	s := startServer(t, "a")
	p := Start(t, s.addr)
	before := dial(t, p.Addr())
	before.say("1")
	before.wantHear("a: 1")
	for range 2 { // twice is as once
		p.Refuse(true)
	}
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v", err)
	}
	before.say("2")
	before.wantHear("a: 2")
	for range 2 {
		p.Refuse(false)
	}
	after := dial(t, p.Addr())
	after.say("3")
	after.wantHear("a: 3")
	if got := p.Counts().Refusals; got != 1 {
		t.Errorf("counted %d", got)
	}
	p.Refuse(true) // the cleanup bears it
}

func TestFreeze(t *testing.T) {
	s := startServer(t, "a")
	p := Start(t, s.addr)
	c := dial(t, p.Addr())
	c.say("1")
	c.wantHear("a: 1")
	p.Freeze()
	c.say("2")
	late := dial(t, p.Addr())
	late.say("3")
	c.wantSilence()
	late.wantSilence()
	if got := s.lines(); !slices.Equal(got, []string{"1"}) {
		t.Errorf("the server got %q", got)
	}
	harness.WaitFor(t, "both to be counted", func() bool { return p.Counts().Frozen >= 2 })
	p.Thaw()
	c.wantHear("a: 2")
	late.wantHear("a: 3")
	p.Thaw() // twice is as once
	p.Freeze()
	c.say("4") // held until the connection is closed by the cleanup
	c.wantSilence()
}

func TestFreezeWhere(t *testing.T) {
	s := startServer(t, "a")
	p := Start(t, s.addr)
	p.FreezeWhere(func(c *Conn) bool { return c.Said("PSYNC") })
	link, other := dial(t, p.Addr()), dial(t, p.Addr())
	link.say("ping")
	link.wantHear("a: ping")
	link.say("psync")
	other.say("evalsha")
	other.wantHear("a: evalsha")
	link.wantSilence()
	// The client that leaves is not noticed before the thaw either.
	if err := link.Close(); err != nil {
		t.Fatal(err)
	}
	other.say("again")
	other.wantHear("a: again")
	if got, want := s.lines(), []string{"ping", "evalsha", "again"}; !slices.Equal(got, want) {
		t.Errorf("the server got %q, want %q", got, want)
	}
	p.FreezeWhere(func(*Conn) bool { return false }) // another rule frees what the first held
	for _, line := range []string{"ping", "evalsha", "again", "psync"} {
		s.await(t, line)
	}
}

func TestSwallow(t *testing.T) {
	t.Run("and close", func(t *testing.T) {
		s := startServer(t, "a")
		p := Start(t, s.addr)
		p.Swallow(Contains("pay"), Close)
		c := dial(t, p.Addr())
		c.say("look")
		c.wantHear("a: look")
		c.say("pay")
		c.wantEnd("")
		s.await(t, "look")
		s.await(t, "pay") // it was done, and nobody was told
		counts := p.Counts()
		if counts.Swallowed != 1 || counts.Closed != 1 || counts.LostBytes == 0 {
			t.Errorf("counted %+v", counts)
		}
		p.Swallow(nil, nil)
		c = dial(t, p.Addr())
		c.say("pay")
		c.wantHear("a: pay")
	})
	t.Run("and stay", func(t *testing.T) {
		s := startServer(t, "a")
		p := Start(t, s.addr)
		p.Swallow(Contains("pay"), Mute)
		c := dial(t, p.Addr())
		c.say("look")
		c.wantHear("a: look")
		c.say("pay")
		c.wantSilence()
		c.say("hello?")
		c.wantSilence()
		for _, line := range []string{"look", "pay", "hello?"} {
			s.await(t, line) // the other direction works
		}
		if counts := p.Counts(); counts.Swallowed != 1 || counts.Muted != 1 {
			t.Errorf("counted %+v", counts)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		harness.WaitFor(t, "the end of the connection", func() bool { return len(p.Conns()) == 0 })
	})
	t.Run("a request in pieces", func(t *testing.T) {
		s := startServer(t, "a")
		p := Start(t, s.addr)
		p.Swallow(Contains("refund now"), Reset)
		c := dial(t, p.Addr())
		for _, part := range []string{"refu", "nd ", "now\n"} {
			if _, err := io.WriteString(c, part); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond) // likely to be read apart; right either way
		}
		if err := c.wantEnd(""); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %v, want a reset", err)
		}
		s.await(t, "refund now")
	})
	t.Run("a long request", func(t *testing.T) {
		s := startServer(t, "a")
		p := Start(t, s.addr)
		p.Swallow(Contains("end of it"), Close)
		c := dial(t, p.Addr())
		c.say(strings.Repeat("x", asked-100) + strings.Repeat("y", 200)[:60] + "end of it")
		c.wantEnd("")
	})
}

func TestHooks(t *testing.T) {
	for _, c := range []struct {
		name    string
		way     Direction
		action  Action
		heard   string
		reset   bool
		silence bool
		arrives bool
		counts  Counts
	}{
		{name: "close in an answer", way: ToClient, action: Close(4), heard: "a: p", arrives: true, counts: Counts{Connections: 1, Closed: 1, LostBytes: 3}},
		{name: "reset before an answer", way: ToClient, action: Reset(0), reset: true, arrives: true, counts: Counts{Connections: 1, Reset: 1, LostBytes: 7}},
		{name: "half an answer, and nothing more", way: ToClient, action: Mute(4), silence: true, heard: "a: p", arrives: true, counts: Counts{Connections: 1, Muted: 1, LostBytes: 3}},
		{name: "close in a request", way: ToTarget, action: Close(2), counts: Counts{Connections: 1, Closed: 1, LostBytes: 2}},
		{name: "more than there is", way: ToClient, action: Close(1000), heard: "a: pay", arrives: true, counts: Counts{Connections: 1, Closed: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startServer(t, "a")
			p := Start(t, s.addr)
			p.Hook(func(*Conn) Hook {
				return func(way Direction, _ []byte) Action {
					if way == c.way {
						return c.action
					}
					return Pass
				}
			})
			client := dial(t, p.Addr())
			client.say("pay")
			hear := func() (string, error) { return client.hear(soon) }
			if c.silence {
				hear = func() (string, error) { return client.hearAll(len(c.heard)) }
			}
			got, err := hear()
			if got != c.heard && got != strings.TrimSuffix(c.heard, "\n") {
				t.Errorf("heard %q, want %q", got, c.heard)
			}
			if silent := errors.Is(err, os.ErrDeadlineExceeded); silent != c.silence {
				t.Errorf("got %v", err)
			}
			if c.reset && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("got %v, want a reset", err)
			}
			if c.arrives {
				s.await(t, "pay")
			}
			if got := p.Counts(); got != c.counts {
				t.Errorf("counted %+v, want %+v", got, c.counts)
			}
		})
	}
}

// A connection has a hook of its own, called for one chunk at a time.
func TestAHookNeedsNoLock(t *testing.T) {
	s := startServer(t, "a")
	p := Start(t, s.addr)
	var ways [2]int // the race detector watches
	p.Hook(func(c *Conn) Hook {
		if c.ID() != 1 {
			return nil
		}
		return func(way Direction, chunk []byte) Action {
			ways[way] += len(chunk)
			return Pass
		}
	})
	c := dial(t, p.Addr())
	for range 100 {
		c.say("x")
	}
	for range 100 {
		c.wantHear("a: x")
	}
	p.Hook(nil)
	other := dial(t, p.Addr())
	other.say("y")
	other.wantHear("a: y")
	p.Cut()
	harness.WaitFor(t, "the end of the connections", func() bool { return len(p.Conns()) == 0 })
	if ways != [2]int{200, 500} {
		t.Errorf("the hook saw %v bytes", ways)
	}
}

func TestTarget(t *testing.T) {
	a, b := startServer(t, "a"), startServer(t, "b")
	p := Start(t, a.addr)
	one := dial(t, p.Addr())
	one.say("1")
	one.wantHear("a: 1")
	p.Target(b.addr)
	two := dial(t, p.Addr())
	two.say("2")
	two.wantHear("b: 2")
	one.say("3") // open connections stay
	one.wantHear("a: 3")
	p.Target(harness.FreePort(t))
	// The reset may come before or after the connection is seen to stand.
	if nobody, err := net.Dial("tcp", p.Addr()); err == nil {
		if n, err := nobody.Read(make([]byte, 1)); err == nil {
			t.Errorf("read %d bytes from nobody", n)
		}
		_ = nobody.Close() // it was reset
	}
	harness.WaitFor(t, "the count of it", func() bool { return p.Counts().Unreachable == 1 })
}
