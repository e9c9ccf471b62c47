//go:build prove

package transports

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/redisstore"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// The reply of a write is lost after the server has done it. go-redis as it
// ships writes again, and takes its own first write for somebody else's; the
// store's claim knows its own, and one settlement stays one.
func TestRedisReplyLost(t *testing.T) {
	server := redisserver.Start(t, redisserver.Options{})
	proxy := faultproxy.Start(t, server.Addr)
	increments, lostToItself := plainRedis(t, proxy)
	violations := 0
	if increments != 2 || !lostToItself {
		violations++
		t.Errorf("the control, go-redis as it ships, incremented %d times and took its own claim for another's: %v; nothing is proven", increments, lostToItself)
	}
	store := redisstore.New(redisstore.Options{Addrs: []string{proxy.Addr()}})
	defer store.Close()
	before := proxy.Counts().Swallowed
	n := proof.Runs(20, 500)
	for i := range n {
		key := tool.CallID{Conversation: "c", ID: fmt.Sprintf("lost-%d", i)}
		swallowNext(proxy, key.ID)
		admission, err := store.Admit(t.Context(), claim(key))
		if err != nil || admission.Verdict != dedupe.Won || admission.Record.Epoch != 1 {
			violations++
			t.Errorf("%s: %s of epoch %d, %v", key.ID, admission.Verdict, admission.Record.Epoch, err)
			continue
		}
		swallowNext(proxy, key.ID)
		verdict, err := store.Settle(t.Context(), dedupe.Settlement{
			Key: key, Owner: "me", Epoch: 1, State: dedupe.Done, Attempts: 1, Result: []byte("result"), Retention: time.Hour,
		})
		if err != nil || verdict != dedupe.Settled {
			violations++
			t.Errorf("%s: %v, %v", key.ID, verdict, err)
		}
	}
	proxy.Swallow(nil, nil)
	lost := proxy.Counts().Swallowed - before
	if lost < 2*n {
		violations++
		t.Errorf("only %d replies of %d were lost", lost, 2*n)
	}
	proof.Report(t, proof.Row{
		Fault: "go-redis: reply of a write lost", Store: "redis", Runs: lost, Violations: violations,
		Figure: fmt.Sprintf("claims of one epoch, none lost to itself; plain go-redis increments %d times", increments),
	})
}

func claim(key tool.CallID) dedupe.Request {
	return dedupe.Request{
		Key: key, Tool: "act", Effect: tool.NonIdempotent, Fingerprint: sha256.Sum256([]byte(key.ID)),
		Owner: "me", Lease: time.Minute, Retention: time.Hour,
	}
}

// swallowNext loses the reply to the next request that holds the text, and no
// other.
func swallowNext(proxy *faultproxy.Proxy, text string) {
	lost := false // the proxy asks for one request at a time: the store sends one
	match := faultproxy.Contains(text)
	proxy.Swallow(func(request []byte) bool {
		if lost || !match(request) {
			return false
		}
		lost = true
		return true
	}, faultproxy.Close)
}

// plainRedis is go-redis as it ships under the same fault.
func plainRedis(t *testing.T, proxy *faultproxy.Proxy) (increments int64, lostToItself bool) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	defer client.Close()
	swallowNext(proxy, "control-counter")
	increments, err := client.Incr(t.Context(), "control-counter").Result()
	if err != nil {
		t.Fatal(err)
	}
	swallowNext(proxy, "control-claim")
	won, err := client.SetNX(t.Context(), "control-claim", "me", time.Minute).Result()
	if err != nil {
		t.Fatal(err)
	}
	return increments, !won
}

// A server that falls silent: go-redis as it ships does not look at the deadline
// of a context while it reads; the store does.
func TestRedisSilent(t *testing.T) {
	const deadline, slack = 300 * time.Millisecond, 1200 * time.Millisecond
	server := redisserver.Start(t, redisserver.Options{})
	proxy := faultproxy.Start(t, server.Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1, ReadTimeout: 3 * time.Second})
	defer client.Close()
	store := redisstore.New(redisstore.Options{Addrs: []string{proxy.Addr()}})
	defer store.Close()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Admit(t.Context(), claim(tool.CallID{ID: "before"})); err != nil {
		t.Fatal(err)
	}
	proxy.Freeze()
	defer proxy.Thaw()
	violations := 0
	plain := timed(t, deadline, func(ctx context.Context) error { return client.Ping(ctx).Err() })
	if plain < deadline+slack {
		violations++
		t.Errorf("the control, go-redis as it ships, ended after %s: nothing is proven", plain)
	}
	var longest time.Duration
	n := proof.Runs(3, 30)
	for i := range n {
		took := timed(t, deadline, func(ctx context.Context) error {
			_, err := store.Admit(ctx, claim(tool.CallID{ID: fmt.Sprint("silent-", i)}))
			return err
		})
		longest = max(longest, took)
		if took > deadline+slack {
			violations++
			t.Errorf("it took %s, the deadline was %s", took, deadline)
		}
	}
	proof.Report(t, proof.Row{
		Fault: "go-redis: server falls silent", Store: "redis", Runs: n, Violations: violations,
		Figure: fmt.Sprintf("deadline %s, ended after %s at most; plain go-redis %s", deadline,
			longest.Round(time.Millisecond), plain.Round(time.Millisecond)),
	})
}

// timed is how long f takes to fail under a deadline.
func timed(t *testing.T, deadline time.Duration, f func(context.Context) error) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	began := time.Now()
	if err := f(ctx); err == nil {
		t.Error("a server that is silent has answered")
	}
	return time.Since(began)
}
