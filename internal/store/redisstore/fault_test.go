//go:build e2e

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
	"github.com/sidecall/sidecall/test/testkit/rivals"
)

// until waits for a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// under runs a fault while calls are made, before, during and after it: nothing
// is answered wrongly, nothing is lost, and in the end everything succeeds.
func under(t *testing.T, options Options, fault func(*rivals.Traffic)) rivals.Verdict {
	t.Helper()
	stores := []dedupe.Store{open(t, options), open(t, options)}
	traffic := rivals.Load{Stores: stores, Workers: 8, Patience: 2 * time.Minute, OneTry: max(options.Timeout, 5*time.Second)}.Start()
	enough := func(when string) {
		if !traffic.AwaitSettled(200) {
			t.Errorf("%s the fault no calls are settled", when)
		}
	}
	enough("before")
	fault(traffic)
	enough("after")
	verdict := traffic.Stop()
	for _, complaint := range verdict.Complaints {
		t.Error(complaint)
	}
	t.Logf("%d calls, %d requests repeated, slowest %v", verdict.Calls, verdict.Repeats, verdict.Slowest)
	return verdict
}

func TestConnectionsLostInMidPipeline(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	p := faultproxy.Start(t, srv.Addr)
	p.Hook(func(*faultproxy.Conn) faultproxy.Hook {
		return func(_ faultproxy.Direction, chunk []byte) faultproxy.Action {
			switch rand.IntN(100) {
			case 0:
				return faultproxy.Close(rand.IntN(len(chunk)))
			case 1:
				return faultproxy.Reset(rand.IntN(len(chunk)))
			default:
				return faultproxy.Pass
			}
		}
	})
	under(t, Options{Addrs: []string{p.Addr()}}, func(traffic *rivals.Traffic) { traffic.AwaitSettled(2000) })
	if c := p.Counts(); c.Closed < 10 || c.Reset < 10 {
		t.Errorf("only %d connections were closed and %d reset", c.Closed, c.Reset)
	}
}

func TestTheScriptsAreForgottenUnderLoad(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	// A machine that stands still for longer than the timeout is no want of a script.
	verdict := under(t, Options{Addrs: []string{srv.Addr}, Timeout: time.Minute}, func(traffic *rivals.Traffic) {
		for range 100 {
			srv.Do("script", "flush")
			traffic.AwaitSettled(5)
		}
	})
	if srv.Info("errorstat_NOSCRIPT") == "" {
		t.Error("no script was missed")
	}
	if verdict.Repeats != 0 {
		t.Errorf("%d requests failed for want of a script", verdict.Repeats)
	}
}

func TestWritesArePaused(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	ctx := context.Background()
	if err := s.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	srv.Do("client", "pause", 60_000, "write")
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if a, err := s.Admit(short, request("x", tool.NonIdempotent)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("admitted %v, %v", a.Verdict, err)
	}
	if err := s.Ping(ctx); err != nil {
		t.Errorf("it only reads: %v", err)
	}
	srv.Do("client", "unpause")
	if a, err := s.Admit(ctx, request("x", tool.NonIdempotent)); err != nil || a.Verdict != dedupe.Won || a.Record.Epoch != 1 {
		t.Errorf("%v at epoch %d, %v", a.Verdict, a.Record.Epoch, err)
	}
	under(t, Options{Addrs: []string{srv.Addr}}, func(*rivals.Traffic) {
		for range 3 {
			srv.Do("client", "pause", 300, "all")
			srv.AwaitInfo("role", "master") // it answers nothing until it is over
		}
	})
}

// A server that is reading its files again says so; the store says so too, and
// goes on when it has read them.
func TestTheServerLoads(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{Args: []string{
		"--appendonly", "yes", "--key-load-delay", "200", "--loading-process-events-interval-bytes", "1024",
	}})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	ctx := context.Background()
	if _, err := s.Admit(ctx, request("x", tool.NonIdempotent)); err != nil {
		t.Fatal(err)
	}
	srv.Do("debug", "populate", 20_000)
	srv.Do("bgrewriteaof")
	until(t, "the file to be rewritten", func() bool {
		return srv.Info("aof_rewrite_in_progress") == "0" && srv.Info("aof_rewrites") != "0" && srv.Info("aof_last_bgrewrite_status") == "ok"
	})
	srv.Kill()
	srv.Launch()
	loading := 0
	until(t, "the store to serve again", func() bool {
		v, err := s.Settle(ctx, settlement("x", "ok"))
		switch {
		case redis.HasErrorPrefix(err, "LOADING"):
			loading++
		case err == nil && v != dedupe.Settled:
			t.Fatalf("the claim is lost: %v", v)
		}
		return err == nil
	})
	if loading == 0 {
		t.Error("it was never seen loading")
	}
}

// A master that was demoted refuses claims, reads still work, and readiness
// says what is wrong.
func TestTheServerIsDemoted(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	ctx := context.Background()
	if _, err := s.Admit(ctx, request("x", tool.NonIdempotent)); err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(closedPort(t), ":")
	srv.Do("replicaof", host, port)
	if a, err := s.Admit(ctx, request("y", tool.NonIdempotent)); !redis.HasErrorPrefix(err, "READONLY") {
		t.Errorf("admitted %v, %v", a.Verdict, err)
	}
	if err := s.Ping(ctx); !errors.Is(err, ErrReplica) {
		t.Errorf("Ping: %v", err)
	}
	if r, err := storetest.Lookup(ctx, s, request("x", 0).Key); err != nil || r.State != dedupe.Claimed {
		t.Errorf("looked up %v, %v", r.State, err)
	}
	late := open(t, Options{Addrs: []string{srv.Addr}}) // comes while it is a replica
	if a, err := late.Admit(ctx, request("y", tool.NonIdempotent)); !redis.HasErrorPrefix(err, "READONLY") {
		t.Errorf("admitted %v, %v", a.Verdict, err)
	}
	srv.Do("replicaof", "no", "one")
	for _, each := range []*Store{s, late} {
		if err := each.Ping(ctx); err != nil {
			t.Errorf("promoted again: %v", err)
		}
		if a, err := each.Admit(ctx, request("y", tool.NonIdempotent)); err != nil || a.Verdict != dedupe.Won || a.Record.Epoch != 1 {
			t.Errorf("%v at epoch %d, %v", a.Verdict, a.Record.Epoch, err)
		}
	}
}

// Somebody's script blocks the server: BUSY, until it is killed.
func TestTheServerIsBusy(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{Args: []string{"--busy-reply-threshold", "50"}})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	ctx := context.Background()
	if err := s.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	var endless sync.WaitGroup
	endless.Go(func() {
		if _, err := srv.Try("eval", "while true do end", 0); err == nil {
			t.Error("the endless script ended")
		}
	})
	until(t, "BUSY", func() bool {
		a, err := s.Admit(ctx, request("x", tool.NonIdempotent))
		if err == nil && a.Verdict != dedupe.Won {
			t.Fatalf("got %v", a.Verdict)
		}
		return redis.HasErrorPrefix(err, "BUSY")
	})
	srv.Do("script", "kill")
	endless.Wait()
	if a, err := s.Admit(ctx, request("x", tool.NonIdempotent)); err != nil || a.Verdict != dedupe.Won || a.Record.Epoch != 1 {
		t.Errorf("%v at epoch %d, %v", a.Verdict, a.Record.Epoch, err)
	}
}

// A full server refuses what needs memory, and says so; what only reads goes on.
func TestAFullServerRefuses(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	ctx := context.Background()
	for _, id := range []string{"done", "x"} {
		if _, err := s.Admit(ctx, request(id, tool.NonIdempotent)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Settle(ctx, settlement("done", "ok")); err != nil {
		t.Fatal(err)
	}
	srv.Do("config", "set", "maxmemory", "1mb")
	before := s.RoundTrips()
	if a, err := s.Admit(ctx, request("y", tool.NonIdempotent)); !redis.IsOOMError(err) {
		t.Errorf("admitted %v, %v", a.Verdict, err)
	}
	if n := s.RoundTrips() - before; n != 1 {
		t.Errorf("a refusal that does not pass was repeated: %d round trips", n)
	}
	if a, err := s.Admit(ctx, request("done", tool.NonIdempotent)); err != nil || a.Verdict != dedupe.Replay {
		t.Errorf("a replay: %v, %v", a.Verdict, err)
	}
	duplicate := request("x", tool.NonIdempotent)
	duplicate.Owner = "another"
	if a, err := s.Admit(ctx, duplicate); err != nil || a.Verdict != dedupe.InFlight {
		t.Errorf("a duplicate of a running call: %v, %v", a.Verdict, err)
	}
	if r, err := storetest.Lookup(ctx, s, request("x", 0).Key); err != nil || r.State != dedupe.Claimed {
		t.Errorf("looked up %v, %v", r.State, err)
	}
	srv.Do("config", "set", "maxmemory", "0")
	if v, err := s.Settle(ctx, settlement("x", "ok")); err != nil || v != dedupe.Settled {
		t.Errorf("%v, %v", v, err)
	}
	if a, err := s.Admit(ctx, request("y", tool.NonIdempotent)); err != nil || a.Verdict != dedupe.Won || a.Record.Epoch != 1 {
		t.Errorf("%v at epoch %d, %v", a.Verdict, a.Record.Epoch, err)
	}
}

// A server that hangs holds a crowd no longer than each one's context, nothing
// is left behind, and the claims made meanwhile are their callers' own.
func TestTheServerHangsUnderACrowd(t *testing.T) {
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}, Timeout: 10 * time.Second})
	crowd := func(ctx context.Context, each func(id string, a dedupe.Admission, err error)) {
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				a, err := s.Admit(ctx, request(fmt.Sprint(i), tool.NonIdempotent))
				each(fmt.Sprint(i), a, err)
			})
		}
		all.Wait()
	}
	won := func(id string, a dedupe.Admission, err error) {
		if err != nil || a.Verdict != dedupe.Won || a.Record.Epoch != 1 {
			t.Errorf("%s: %v at epoch %d, %v", id, a.Verdict, a.Record.Epoch, err)
		}
	}
	crowd(t.Context(), won)
	goroutines := runtime.NumGoroutine()
	shortest := time.Hour
	for range 3 { // in one of which the machine may stand still
		srv.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		begin := time.Now()
		crowd(ctx, func(id string, a dedupe.Admission, err error) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v, %v", id, a.Verdict, err)
			}
		})
		cancel()
		shortest = min(shortest, time.Since(begin))
		srv.Resume()
		crowd(t.Context(), won)
	}
	if shortest > 5*time.Second { // the store's own limit is 10 s
		t.Errorf("a context of 200 ms was heeded after %v", shortest)
	}
	until(t, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
	if n, most := clients(srv), poolSize; n > most {
		t.Errorf("%d connections, more than the %d that the pool allows", n, most)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	until(t, "the connections to be closed", func() bool { return clients(srv) == 0 })
}

// clients counts a server's connections that are a store's.
func clients(srv *redisserver.Server) int {
	list, err := srv.Try("client", "list")
	if err != nil {
		return -1
	}
	return strings.Count(fmt.Sprint(list), "name=sidecall ")
}

// The policy is changed while the store is at work: it is noticed, without being
// asked for, and so is its being mended.
func TestAServerThatBeginsToEvict(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}, CheckEvery: 20 * time.Millisecond})
	ctx := context.Background()
	admit := func() error {
		_, err := s.Admit(ctx, request("x", tool.NonIdempotent))
		return err
	}
	if err := admit(); err != nil {
		t.Fatal(err)
	}
	srv.Do("config", "set", "maxmemory-policy", "volatile-ttl")
	until(t, "claims to be refused", func() bool { return errors.Is(admit(), ErrUnfit) })
	if err := s.Ping(ctx); !errors.Is(err, ErrUnfit) {
		t.Errorf("Ping: %v", err)
	}
	srv.Do("config", "set", "maxmemory-policy", "noeviction")
	until(t, "claims to be accepted", func() bool { return admit() == nil })

	// Another store is not looking just now, but has to connect again.
	other := open(t, Options{Addrs: []string{srv.Addr}, CheckEvery: time.Hour})
	if err := other.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	srv.Do("config", "set", "maxmemory-policy", "allkeys-lru")
	srv.Do("client", "kill", "type", "normal")
	until(t, "claims to be refused after the connections were lost", func() bool {
		_, err := other.Admit(ctx, request("x", tool.NonIdempotent))
		return errors.Is(err, ErrUnfit)
	})
}

// Without INFO nobody can tell: it works, and the operator is told.
func TestAServerThatDoesNotTell(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	srv.Do(asArgs(documentedUser(t))...)
	srv.Do("acl", "setuser", "sidecall", "-info")
	s := open(t, Options{Addrs: []string{srv.Addr}, Username: "sidecall", Password: "secret"})
	if _, err := s.Admit(t.Context(), request("x", tool.NonIdempotent)); err != nil {
		t.Error(err)
	}
	if warnings, _, err := s.check(t.Context()); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "INFO is not allowed") {
		t.Errorf("got %q, %v", warnings, err)
	}
}

// Whatever is wrong with the credentials, the error says what, and not the
// password.
func TestWrongCredentials(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{Password: "right-secret"})
	for name, o := range map[string]Options{
		"WRONGPASS": {Addrs: []string{srv.Addr}, Password: "wrong-secret"},
		"NOAUTH":    {Addrs: []string{srv.Addr}},
	} {
		err := open(t, o).Ping(t.Context())
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
