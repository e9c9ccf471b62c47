//go:build e2e

package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

func TestTwoRoundTripsPerCallAndOnePerReplay(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	ctx := context.Background()
	for i := range 10 { // the scripts are known after the first
		d := s.RoundTrips()
		id := fmt.Sprint(i)
		if a, err := s.Admit(ctx, request(id, tool.NonIdempotent)); err != nil || a.Verdict != dedupe.Won {
			t.Fatal(a.Verdict, err)
		}
		end := settlement(id, "ok")
		end.Output = &dedupe.Output{Ref: id, Data: []byte("long"), TTL: time.Hour}
		if v, err := s.Settle(ctx, end); err != nil || v != dedupe.Settled {
			t.Fatal(v, err)
		}
		if got := s.RoundTrips() - d; i > 0 && got != 2 {
			t.Errorf("%d round trips for a call", got)
		}
		d = s.RoundTrips()
		if a, err := s.Admit(ctx, request(id, tool.NonIdempotent)); err != nil || a.Verdict != dedupe.Replay {
			t.Fatal(a.Verdict, err)
		}
		if got := s.RoundTrips() - d; got != 1 {
			t.Errorf("%d round trips for a replay", got)
		}
	}
}

// A server that drops the key of a running call, as one does whose clock has jumped
// past its time, hears of the call again: what must not be repeated is UNKNOWN
// then, what may be is still claimed, and both take their owner's word.
func TestAKeyThatIsDroppedUnderARunningCall(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	d := dedupe.New(s, dedupe.Options{Lease: 3 * time.Second, Retention: time.Hour})
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	for effect, want := range map[tool.Effect]dedupe.State{tool.NonIdempotent: dedupe.Unknown, tool.Idempotent: dedupe.Claimed} {
		req := charged(effect.String(), effect)
		a, claim, err := storetest.Admit(t.Context(), d, req)
		if err != nil || a.Verdict != dedupe.Won {
			t.Fatal(a.Verdict, err)
		}
		name := RecordKey("sidecall:", req.Key)
		srv.Do("pexpire", name, "-1") // its time is over
		if got, err := storetest.Lookup(t.Context(), s, req.Key); err != nil || got.State != dedupe.Absent {
			t.Fatalf("%v, %v", got.State, err)
		}
		restored := func() bool { n, _ := srv.Do("exists", name).(int64); return n == 1 }
		for n := 0; !restored(); n++ {
			if n == 500 {
				t.Fatal("never written back")
			}
			time.Sleep(20 * time.Millisecond) // the renewal's own timer
		}
		got, err := storetest.Lookup(t.Context(), s, req.Key)
		if err != nil || got.State != want || got.Owner != a.Record.Owner || got.Epoch != 1 || got.Counter != req.Draw.Counter {
			t.Errorf("%v: it is %+v, %v", effect, got, err)
		}
		if left, _ := srv.Do("pttl", name).(int64); left < time.Hour.Milliseconds()-60_000 {
			t.Errorf("%v: kept for %d ms", effect, left)
		}
		if v, err := claim.Settle(t.Context(), dedupe.Settlement{State: dedupe.Done, Attempts: 1, Result: []byte("paid")}); err != nil || v != dedupe.Settled {
			t.Errorf("%v: %v, %v", effect, v, err)
		}
		other := req
		other.Owner, other.Lease, other.Retention = "another", time.Second, time.Hour
		admit(t, s, other, dedupe.Replay)
	}
}

// A record is remembered for the retention, whatever happened to its lease.
func TestTheKeyLivesForTheRetention(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	ctx := context.Background()
	left := func(id string) time.Duration {
		ms, _ := srv.Do("pttl", RecordKey("sidecall:", request(id, 0).Key)).(int64)
		return time.Duration(ms) * time.Millisecond
	}
	check := func(when string) {
		t.Helper()
		if got := left("x"); got < 23*time.Hour || got > 24*time.Hour {
			t.Errorf("%s the key lives for %v, want the retention", when, got)
		}
	}
	for range 2 {
		if _, err := s.Admit(ctx, request("x", tool.NonIdempotent)); err != nil {
			t.Fatal(err)
		}
		check("claimed,")
	}
	if ok, err := storetest.Renew(ctx, s, request("x", 0).Key, "owner of x", 1, time.Minute); !ok || err != nil {
		t.Fatal(ok, err)
	}
	check("renewed,")
	if _, err := s.Settle(ctx, settlement("x", "ok")); err != nil {
		t.Fatal(err)
	}
	check("settled,")
}

// Replies are lost at any moment: nothing is claimed twice, and nobody is told
// that his own claim is another's.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	p := faultproxy.Start(t, srv.Addr)
	var deaf atomic.Int32 // how many replies are to be lost, with their connection
	p.Hook(func(*faultproxy.Conn) faultproxy.Hook {
		return func(way faultproxy.Direction, _ []byte) faultproxy.Action {
			if way == faultproxy.ToClient && deaf.Load() > 0 && deaf.Add(-1) >= 0 {
				return faultproxy.Close(0)
			}
			return faultproxy.Pass
		}
	})
	s := open(t, Options{Addrs: []string{p.Addr()}})
	ctx := context.Background()
	if err := s.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		id := fmt.Sprint(i)
		deaf.Store(int32(i % maxTries)) // one try always gets through
		a, err := s.Admit(ctx, request(id, tool.NonIdempotent))
		if err != nil || a.Verdict != dedupe.Won || a.Record.Epoch != 1 {
			t.Fatalf("%s: %v at epoch %d, %v", id, a.Verdict, a.Record.Epoch, err)
		}
		deaf.Store(int32((i / maxTries) % maxTries))
		if v, err := s.Settle(ctx, settlement(id, "ok")); err != nil || v != dedupe.Settled {
			t.Fatalf("%s: %v, %v", id, v, err)
		}
		deaf.Store(0)
		again := request(id, tool.NonIdempotent)
		again.Owner = "another"
		if a, err := s.Admit(ctx, again); err != nil || a.Verdict != dedupe.Replay || string(a.Record.Result) != "ok" {
			t.Fatalf("%s: %v, %v", id, a.Verdict, err)
		}
	}
}

func TestTheServerForgetsTheScripts(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	var crowd sync.WaitGroup
	for worker := range 32 {
		crowd.Go(func() {
			for i := range 50 {
				id := fmt.Sprint(worker, " ", i)
				if worker == 0 {
					if _, err := srv.Try("script", "flush"); err != nil {
						t.Error(err)
					}
				}
				a, err := s.Admit(context.Background(), request(id, tool.NonIdempotent))
				if err != nil || a.Verdict != dedupe.Won {
					t.Errorf("%s: %v, %v", id, a.Verdict, err)
				}
			}
		})
	}
	crowd.Wait()
}

// A server that goes away and comes back: errors meanwhile, and then everything
// works again, with what the append-only file remembers.
func TestTheServerIsRestarted(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	ctx := context.Background()
	if _, err := s.Admit(ctx, request("x", tool.NonIdempotent)); err != nil {
		t.Fatal(err)
	}
	srv.Kill()
	if err := s.Ping(ctx); err == nil {
		t.Error("Ping while it is down")
	}
	if a, err := s.Admit(ctx, request("y", tool.NonIdempotent)); err == nil {
		t.Errorf("admitted %v while it is down", a.Verdict)
	}
	srv.Restart()
	if v, err := s.Settle(ctx, settlement("x", "ok")); err != nil || v != dedupe.Settled {
		t.Errorf("settled after the restart: %v, %v", v, err)
	}
	if a, err := s.Admit(ctx, request("x", tool.NonIdempotent)); err != nil || a.Verdict != dedupe.Replay {
		t.Errorf("replayed after the restart: %v, %v", a.Verdict, err)
	}
}

func TestTheServerComesLate(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	srv.Kill()
	s := open(t, Options{Addrs: []string{srv.Addr}})
	if err := s.Ping(context.Background()); err == nil {
		t.Error("Ping before there is a server")
	}
	srv.Restart()
	deadline := time.Now().Add(10 * time.Second)
	for s.Ping(context.Background()) != nil {
		if time.Now().After(deadline) {
			t.Fatal("it never noticed")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if a, err := s.Admit(context.Background(), request("x", tool.NonIdempotent)); err != nil || a.Verdict != dedupe.Won {
		t.Errorf("got %v, %v", a.Verdict, err)
	}
}

// A server that hangs holds a caller no longer than its context, and a claim
// made meanwhile is the caller's own.
func TestTheServerHangs(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	if err := s.Ping(context.Background()); err != nil {
		t.Fatal(err)
	}
	srv.Pause()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Admit(ctx, request("x", tool.NonIdempotent)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	srv.Resume()
	a, err := s.Admit(context.Background(), request("x", tool.NonIdempotent))
	if err != nil || a.Verdict != dedupe.Won || a.Record.Epoch != 1 {
		t.Errorf("got %v at epoch %d, %v", a.Verdict, a.Record.Epoch, err)
	}
}

func TestAServerThatEvictsIsRefused(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{Args: []string{"--maxmemory-policy", "allkeys-lru"}})
	ctx := context.Background()
	s := open(t, Options{Addrs: []string{srv.Addr}})
	if err := s.Ping(ctx); !errors.Is(err, ErrUnfit) {
		t.Errorf("Ping: %v", err)
	}
	if _, err := s.Admit(ctx, request("x", tool.ReadOnly)); !errors.Is(err, ErrUnfit) {
		t.Errorf("Admit: %v", err)
	}
	// The operator mends it, and the first store works.
	srv.Do("config", "set", "maxmemory-policy", "noeviction")
	deadline := time.Now().Add(10 * time.Second)
	for s.Ping(ctx) != nil {
		if time.Now().After(deadline) {
			t.Fatal("it never noticed")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestCheckWarns(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	if warnings, _, err := s.check(context.Background()); err != nil || len(warnings) != 1 {
		t.Errorf("of a server that forgets: %q, %v", warnings, err)
	}
	srv.Do("config", "set", "appendonly", "yes")
	if warnings, _, err := s.check(context.Background()); err != nil || len(warnings) != 0 {
		t.Errorf("of one that remembers: %q, %v", warnings, err)
	}
}

// What fewer replicas have than asked for is no claim.
func TestReplicasHaveToHaveIt(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}, WaitReplicas: 1, WaitTimeout: 50 * time.Millisecond})
	ctx := context.Background()
	if a, err := s.Admit(ctx, request("x", tool.NonIdempotent)); err == nil {
		t.Fatalf("admitted %v without a replica", a.Verdict)
	}
	replica := redisserver.StartReplica(t, srv.Addr, redisserver.Options{})
	deadline := time.Now().Add(20 * time.Second)
	for {
		a, err := s.Admit(ctx, request("x", tool.NonIdempotent))
		if err == nil {
			if a.Verdict != dedupe.Won || a.Record.Epoch != 1 {
				t.Errorf("got %v at epoch %d", a.Verdict, a.Record.Epoch)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if got := replica.Do("exists", RecordKey("sidecall:", request("x", 0).Key)); got != int64(1) {
		t.Error("the replica does not have the claim")
	}
}

// An append is one round trip, however long the head of its conversation is, and one that
// follows another head is told so in one.
func TestRoundTripsOfAnAppend(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Addrs: []string{redisserver.Start(t, redisserver.Options{}).Addr}})
	w := conversation.Write{Key: conversation.Key{Tenant: "acme", ID: "c"}, TTL: time.Hour}
	for i := range 5 {
		w.Was, w.Head, w.After = w.Head, bytes.Repeat([]byte{byte('a' + i)}, 20<<10), int64(i)
		w.Messages = [][]byte{[]byte("hello")}
		for _, want := range []bool{true, false} {
			before, now := s.RoundTrips(), w
			if !want {
				now.Was, now.Head = []byte("another"), []byte("head")
			}
			written, err := s.WriteConversation(t.Context(), now)
			if err != nil || written != want {
				t.Fatal(written, err)
			}
			if got := s.RoundTrips() - before; i > 0 && got != 1 {
				t.Errorf("append %d, which is written %v: %d round trips", i, want, got)
			}
		}
	}
}

// An effect costs no round trip: a call with one is two, a refusal one, wherever the
// earlier call is.
func TestRoundTripsOfAnEffect(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	trips := func(what string, want uint64, do func()) {
		t.Helper()
		before := s.RoundTrips()
		if do(); s.RoundTrips()-before != want {
			t.Errorf("%s: %d round trips, want %d", what, s.RoundTrips()-before, want)
		}
	}
	pays := func(id string, of byte) dedupe.Request {
		req := request(id, tool.NonIdempotent)
		req.Key.Conversation = "c"
		req.EffectKey = dedupe.EffectKey{Print: [32]byte{of}, Window: time.Hour, WholeTenant: of%2 == 1}
		return req
	}
	admit := func(req dedupe.Request, want dedupe.Verdict) {
		t.Helper()
		if a, err := s.Admit(t.Context(), req); err != nil || a.Verdict != want {
			t.Fatal(a.Verdict, err)
		}
	}
	for i := range byte(10) { // the scripts are known after the first
		first := pays(fmt.Sprint("first ", i), i)
		end := settlement(first.Key.ID, "paid")
		end.Key = first.Key
		call := func() {
			admit(first, dedupe.Won)
			if v, err := s.Settle(t.Context(), end); err != nil || v != dedupe.Settled {
				t.Fatal(v, err)
			}
		}
		if i == 0 {
			call()
			continue
		}
		trips("a call", 2, call)
		trips("a replay", 1, func() { admit(first, dedupe.Replay) })
		trips("a refusal", 1, func() { admit(pays(fmt.Sprint("second ", i), i), dedupe.DuplicateEffect) })
	}
}

// What several servers would have to be asked for is refused, and not done in part.
func TestATenantsEffectOnACluster(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Addrs: redisserver.StartCluster(t, 3, 0).Addrs(), Cluster: true})
	req := request("x", tool.NonIdempotent)
	req.EffectKey = dedupe.EffectKey{Print: [32]byte{1}, Window: time.Hour, WholeTenant: true}
	_, admitted := s.Admit(t.Context(), req)
	claim := dedupe.Record{State: dedupe.Claimed, Epoch: 1, Owner: "owner", Tool: "refund"}
	_, _, renewed := s.Renew(t.Context(), dedupe.Renewal{
		Key: req.Key, Lease: req.Lease, Retention: req.Retention, Claim: dedupe.Origin{Record: claim, EffectKey: req.EffectKey},
	})
	end := settlement("x", "paid")
	end.Frees = req.EffectKey
	_, settled := s.Settle(t.Context(), end)
	for what, err := range map[string]error{"Admit": admitted, "Renew": renewed, "Settle": settled} {
		if !errors.Is(err, dedupe.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
