//go:build e2e || prove

package redisstore

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// stepping sends steps to a server as they are.
type stepping struct {
	*testing.T
	srv    *redisserver.Server
	client *redis.Client
}

func newStepping(t *testing.T) *stepping {
	t.Helper()
	srv := redisserver.Start(t, redisserver.Options{})
	client := redis.NewClient(&redis.Options{Addr: srv.Addr})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return &stepping{t, srv, client}
}

// send sends a step of some rows, decided at an instant.
func (s *stepping) send(now time.Time, read []row, others []string, writes ...write) (any, error) {
	c := &command{load: true, rows: rows{now: now, read: read, draft: draft{writes: writes}}}
	for _, key := range others {
		c.rows.others = append(c.rows.others, text(key))
	}
	c.rows.compose()
	return s.client.Do(s.Context(), c.call()...).Result()
}

func (s *stepping) now() time.Time {
	s.Helper()
	now, err := s.client.Time(s.Context()).Result()
	if err != nil {
		s.Fatal(err)
	}
	return now
}

// A step is done as a whole when each of its rows is as it was read, byte for byte, and
// when its time is right; else nothing of it is, and what is true is told.
func TestAStepIsDoneOnlyIfAllThatItHasReadIsTrue(t *testing.T) {
	t.Parallel()
	s := newStepping(t)
	var as any // told of a row that is as it was read
	for name, c := range map[string]struct {
		there map[string]any // what the server has
		read  []row
		late  time.Duration // how much later than now the step counts from
		tells []any         // nil when it is done
	}{
		"nothing is there":       {nil, []row{{key: "{x}a"}, {key: "{x}b"}}, 0, nil},
		"both are as read":       {map[string]any{"{x}a": "1", "{x}b": "\x00\xff"}, []row{{key: "{x}a", text: "1"}, {key: "{x}b", text: "\x00\xff"}}, 0, nil},
		"the first is another":   {map[string]any{"{x}a": "2", "{x}b": "1"}, []row{{key: "{x}a", text: "1"}, {key: "{x}b", text: "1"}}, 0, []any{"2", as}},
		"the last is another":    {map[string]any{"{x}a": "1", "{x}b": "2"}, []row{{key: "{x}a", text: "1"}, {key: "{x}b", text: "1"}}, 0, []any{as, "2"}},
		"one has gone":           {map[string]any{"{x}b": "1"}, []row{{key: "{x}a", text: "1"}, {key: "{x}b", text: "1"}}, 0, []any{"", as}},
		"one has come":           {map[string]any{"{x}a": "1"}, []row{{key: "{x}a"}, {key: "{x}b"}}, 0, []any{"1", as}},
		"one is there and empty": {map[string]any{"{x}a": ""}, []row{{key: "{x}a"}, {key: "{x}b"}}, 0, []any{"\x01", as}},
		"the server is ahead":    {nil, []row{{key: "{x}a"}, {key: "{x}b"}}, -time.Hour, nil},
		"the server is behind":   {nil, []row{{key: "{x}a"}, {key: "{x}b"}}, time.Minute, []any{as, as}},
	} {
		s.srv.Do("flushall")
		for key, text := range c.there {
			s.srv.Do("set", key, text)
		}
		before := s.now()
		reply, err := s.send(before.Add(c.late), c.read, []string{"{x}c"},
			write{what: 'S', key: 0, amount: 60_000, text: text("written")}, write{what: 'S', key: -1, amount: 60_000, text: text("beside")})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		told, differs := reply.([]any)
		if !differs {
			told = []any{reply}
		}
		if at, _ := told[0].(int64); at < before.UnixMilli() || at > before.Add(time.Minute).UnixMilli() {
			t.Errorf("%s: the time is told as %v", name, told[0])
		}
		if differs != (c.tells != nil) || differs && !slices.Equal(told[1:], c.tells) {
			t.Errorf("%s: told %q, want %q", name, reply, c.tells)
		}
		want := map[string]any{"{x}a": "written", "{x}c": "beside"}
		if differs {
			want = map[string]any{"{x}a": c.there["{x}a"], "{x}c": nil}
		}
		for key, text := range want {
			if got := s.srv.Do("get", key); got != text {
				t.Errorf("%s: then %s is %q, want %q", name, key, got, text)
			}
		}
	}
}

// What a step writes is done in its order, each with the time that it is kept for.
func TestWhatAStepDoes(t *testing.T) {
	t.Parallel()
	s := newStepping(t)
	do := func(others []string, writes ...write) error {
		_, err := s.send(s.now(), nil, others, writes...)
		return err
	}
	lives := func(key string, want time.Duration) {
		t.Helper()
		ms, _ := s.srv.Do("pttl", key).(int64)
		if got := time.Duration(ms) * time.Millisecond; got > want || got < want-30*time.Second {
			t.Errorf("%s lives for %v, want %v", key, got, want)
		}
	}
	other := func(what byte, key int, amount int64, body string) write {
		return write{what: what, key: -1 - key, amount: amount, text: text(body)}
	}
	keys := []string{"{x}a", "{x}list"}
	if err := do(keys, other('S', 0, 3_600_000, "1"), other('n', 1, 0, ""), other('R', 1, 0, "m1"), other('R', 1, 0, "m2"), other('e', 1, 3_600_000, "")); err != nil {
		t.Fatal(err)
	}
	lives("{x}a", time.Hour)
	lives("{x}list", time.Hour)
	if err := do(keys, other('S', 0, 0, "2")); err != nil || s.srv.Do("get", "{x}a") != "2" {
		t.Errorf("%v, %v", s.srv.Do("get", "{x}a"), err)
	}
	lives("{x}a", time.Hour)
	for _, n := range []int64{0, 1, 3} {
		if err := do(keys, other('n', 1, n, ""), other('R', 1, 0, "m3"), other('S', 0, 0, "")); err == nil || !strings.HasPrefix(err.Error(), "SIDECALL ") {
			t.Errorf("a list of two that is to have %d: %v", n, err)
		}
	}
	if err := do(keys, other('n', 1, 2, ""), other('R', 1, 0, "m3"), other('S', 0, 0, "")); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(s.srv.Do("lrange", "{x}list", 0, -1), s.srv.Do("exists", "{x}a")); got != "[m1 m2 m3] 0" {
		t.Errorf("then there is %s", got)
	}
}

// A log is cut when it is much longer than what counts of it, and one that is none begins
// anew: whatever is appended to it, its latest entries are there.
func TestALogIsCutNowAndThen(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	key := request("x", 0).Key
	name := string(appendKey(nil, "sidecall:", "log/", shardOfCall(&key), "acme", key.Conversation, "guard"))
	note := func(entry []byte, keep int) [][]byte {
		t.Helper()
		n := dedupe.Note{Key: key, Logs: []string{"guard"}, Appends: []dedupe.Append{{Log: "guard", Entry: entry, Keep: keep}}, Retention: time.Hour}
		noted, err := s.Note(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		return noted.Logs[0]
	}
	var all [][]byte
	for i := range 100 {
		entry := []byte(fmt.Sprintf("entry %3d\x00", i))
		all = append(all, entry)
		if got, want := note(entry, 5), all[max(0, len(all)-5):]; !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("after %d it has %q, want %q", i, got, want)
		}
		if size, _ := srv.Do("strlen", name).(int64); size > 2*5*(3+10) {
			t.Fatalf("after %d it is %d bytes long", i, size)
		}
	}
	srv.Do("del", name)
	srv.Do("rpush", name, "no text")
	if got := note([]byte("anew"), 5); len(got) != 1 || string(got[0]) != "anew" {
		t.Errorf("in place of what was none there is %q", got)
	}
	admit(t, s, request("x", tool.NonIdempotent), dedupe.Won)
	if got := note([]byte("of a call that runs"), 5); len(got) != 1 {
		t.Errorf("then there is %q", got)
	}
}
