package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// open returns a store that is closed at the end of the test.
func open(t testing.TB, options Options) *Store {
	t.Helper()
	s := New(options)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func request(id string, effect tool.Effect) dedupe.Request {
	return dedupe.Request{
		Key: tool.CallID{Tenant: "acme", Conversation: "c", Turn: "1", ID: id}, Tool: "refund", Effect: effect,
		Fingerprint: [32]byte{7}, Owner: "owner of " + id, Lease: time.Minute, Retention: 24 * time.Hour,
	}
}

func settlement(id, result string) dedupe.Settlement {
	return dedupe.Settlement{
		Key: request(id, 0).Key, Owner: "owner of " + id, Epoch: 1, State: dedupe.Done,
		Attempts: 1, Result: []byte(result), Retention: 24 * time.Hour,
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key  tool.CallID
		want string
	}{
		{tool.CallID{Tenant: "acme", Conversation: "c-1", Turn: "4", ID: "call_0"}, "sidecall:{333}/acme/c-1/4/call_0"},
		{tool.CallID{Conversation: "c-1", ID: "call_0"}, "sidecall:{302}//c-1//call_0"},
		{tool.CallID{Tenant: "acme", Turn: "4", ID: "call_0"}, "sidecall:{212}/acme//4/call_0"},
		{tool.CallID{ID: "{}"}, "sidecall:{332}////%7B%7D"},
		{tool.CallID{Tenant: "a/b", Conversation: "}{", Turn: "%", ID: "é\x00"}, "sidecall:{030}/a%2Fb/%7D%7B/%25/%C3%A9%00"},
	} {
		if got := RecordKey("sidecall:", c.key); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.key, got, c.want)
		}
	}
	if got := string(appendKey(nil, "p:", "output/", nowhere, "a/b", "{ref}")); got != "p:output/a%2Fb/%7Bref%7D" {
		t.Error(got)
	}
}

// Whatever the components, the part in braces is that of the conversation.
func FuzzKeys(f *testing.F) {
	f.Add("acme", "c-1", "4", "call_0", "5", "call_1")
	f.Add("", "", "", "x", "{", "}")
	f.Add("{}", "}{", "/", "%", "\x00", "\xff")
	f.Fuzz(func(t *testing.T, tenant, conversation, turn, id, turn2, id2 string) {
		one := tool.CallID{Tenant: tenant, Conversation: conversation, Turn: turn, ID: id}
		two := tool.CallID{Tenant: tenant, Conversation: conversation, Turn: turn2, ID: id2}
		a, b := RecordKey("p:", one), RecordKey("p:", two)
		if (a == b) != (one == two) {
			t.Errorf("%q and %q are both %s", one, two, a)
		}
		for _, k := range []string{a, b} {
			if strings.Count(k, "{") != 1 || strings.Count(k, "}") != 1 || strings.Contains(k, "{}") {
				t.Errorf("%s has no clear hash tag", k)
			}
		}
		if conversation != "" && tag(a) != tag(b) {
			t.Errorf("%s and %s may be on different nodes", a, b)
		}
	})
}

func tag(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	inner, _, _ := strings.Cut(rest, "}")
	return inner
}

// Each shard has another 64th of the slots of a Cluster, and another 64th of the conversations.
func TestShardsAreSpread(t *testing.T) {
	t.Parallel()
	slots := map[uint16]bool{}
	for in := range shard(shards) {
		crc := uint16(0) // CRC-16/XMODEM, as Redis has it
		for _, c := range []byte(tag(string(appendKey(nil, "p:", "", in)))) {
			crc ^= uint16(c) << 8
			for range 8 {
				high := crc&0x8000 != 0
				if crc <<= 1; high {
					crc ^= 0x1021
				}
			}
		}
		slots[crc%16384/(16384/shards)] = true
	}
	if len(slots) != shards {
		t.Errorf("the shards are in %d parts of the slots", len(slots))
	}
	const each = 1000
	var conversations [shards]int
	for i := range shards * each {
		conversations[shardOf("acme", fmt.Sprint("conversation ", i))]++
	}
	if few, many := slices.Min(conversations[:]), slices.Max(conversations[:]); few < each*8/10 || many > each*12/10 {
		t.Errorf("of %d conversations to each shard one has %d, and one %d", each, few, many)
	}
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// Without a server the store exists, and says what is wrong.
func TestWithoutAServer(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"standalone": {Addrs: []string{closedPort(t)}},
		"sentinel":   {Addrs: []string{closedPort(t)}, MasterName: "main"},
		"cluster":    {Addrs: []string{closedPort(t)}, Cluster: true},
	} {
		s := open(t, o)
		ctx := context.Background()
		if err := s.Ping(ctx); err == nil {
			t.Errorf("%s: Ping", name)
		}
		if a, err := s.Admit(ctx, request("x", tool.ReadOnly)); !errors.Is(err, dedupe.ErrUnasked) {
			t.Errorf("%s: admitted %v, %v", name, a.Verdict, err)
		}
		if _, err := s.Settle(ctx, settlement("x", "ok")); err == nil {
			t.Errorf("%s: settled", name)
		}
		if got := s.RoundTrips(); got != 0 {
			t.Errorf("%s: %d commands were sent to nobody", name, got)
		}
	}
}

// A server that accepts and never answers holds nobody beyond its context.
func TestASilentServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // closed twice when the test fails early
	s := open(t, Options{Addrs: []string{l.Addr().String()}, Timeout: time.Minute})
	s.fitness.found.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Admit(ctx, request("x", tool.ReadOnly)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := l.Close(); err != nil { // resets the connection, so that Close need not wait a minute
		t.Error(err)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	good := "# Memory\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\nconnected_slaves:0\r\nrole:master\r\n"
	for _, c := range []struct {
		name     string
		info     string
		err      error
		warnings []string
	}{
		{name: "all is well", info: good},
		{name: "a replica is as good as a file", info: strings.NewReplacer("aof_enabled:1", "aof_enabled:0", "slaves:0", "slaves:1").Replace(good)},
		{name: "it evicts", info: strings.Replace(good, "noeviction", "allkeys-lru", 1), err: ErrUnfit},
		{name: "it is too old", info: good + "redis_version:6.2.14\r\n", err: ErrUnfit},
		{name: "it is new enough", info: good + "redis_version:7.2.4\r\n"},
		{name: "it is far newer", info: good + "redis_version:255.255.255\r\n"},
		{name: "it forgets", info: strings.Replace(good, "aof_enabled:1", "aof_enabled:0", 1), warnings: []string{"append-only"}},
		{name: "it is a replica", info: strings.Replace(good, "master", "slave", 1), err: ErrReplica},
		{name: "it says nothing", info: "", warnings: []string{"maxmemory-policy"}},
	} {
		warnings, err := judge(c.info)
		if !errors.Is(err, c.err) || len(warnings) != len(c.warnings) {
			t.Errorf("%s: got %q, %v", c.name, warnings, err)
			continue
		}
		for i, want := range c.warnings {
			if !strings.Contains(warnings[i], want) {
				t.Errorf("%s: %q does not mention %s", c.name, warnings[i], want)
			}
		}
	}
}

// said is an error that a server sent.
type said string

func (s said) Error() string { return string(s) }
func (said) RedisError()     {}

func TestWhatIsSentAgain(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		io.EOF: true,
		&net.OpError{Op: "read", Err: errors.New("reset")}: true,
		fmt.Errorf("pool: %w", context.DeadlineExceeded):   true,
		said("LOADING Redis is loading the dataset"):       true,
		said("READONLY You can't write against a replica"): true,
		said("CLUSTERDOWN The cluster is down"):            true,
		said("BUSY Redis is busy running a script"):        true,
		said("OOM command not allowed"):                    false,
		said("NOAUTH Authentication required."):            false,
		said("ERR user_script:1: bug"):                     false,
		said("WRONGTYPE Operation against a key"):          false,
		dedupe.ErrClosed: false,
		redis.ErrClosed:  false,
	} {
		if got := worthRepeating(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

// Whatever a server answers, it is an error and no panic.
func TestStrangeReplies(t *testing.T) {
	t.Parallel()
	for _, reply := range []any{
		nil, "x", []any{}, []any{"x"}, []any{int64(1)}, []any{int64(1), "x", "y"}, []any{"x", "y"}, []any{int64(1), int64(2)}, []any{int64(1), []any{}},
	} {
		l := laneOf(Options{}, time.Time{}, time.Time{})
		asked := &seen{key: "sidecall:{x}"}
		c := asked.command()
		if !c.decide(l) {
			t.Fatal("nothing is asked")
		}
		c.reply = reply
		c.hear(l)
		if !answered(c) || c.err == nil {
			t.Errorf("%q is read as %q", reply, asked.text)
		}
	}
	if _, err := decodeOutput("ref", "", time.Now()); !errors.Is(err, dedupe.ErrCorrupt) {
		t.Errorf("an empty output: %v", err)
	}
}

// seen is what a step that looks at a row sees.
type seen struct{ key, text string }

func (s *seen) command() *command {
	return newCommand(context.Background(), s.key, own(0, func(r *rows) { s.text = r.read[r.at([]byte(s.key))].text }))
}

// Any bytes under a key of ours are a record or an error, no panic.
func FuzzDecode(f *testing.F) {
	f.Add("")
	for _, version := range []string{"\x01", "\x02", "\x03"} {
		f.Add(version + strings.Repeat("\x00", dedupe.StoredBytes))
		f.Add(version + strings.Repeat("\xff", dedupe.StoredBytes+300))
	}
	f.Add(unknownRecord("alice", "refund"))
	f.Fuzz(func(t *testing.T, b string) {
		r, err := decodeRecord(b)
		if err != nil && !errors.Is(err, dedupe.ErrCorrupt) && !errors.Is(err, dedupe.ErrLayout) {
			t.Errorf("got %v", err)
		}
		if err == nil && !strings.HasSuffix(b[:len(b)-stampBytes], string(r.Result)) {
			t.Errorf("%q is read as %+v", b, r)
		}
	})
}
