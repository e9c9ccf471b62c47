//go:build e2e || prove

package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// WAIT speaks of its own connection: up to Redis 7.0 of all that the server had
// written by its last command, from 7.2 on only of what it has itself written.
// Whoever repeats a request after a lost connection, and finds it done, must not
// be told that the replicas have it.
func TestARepetitionOnAnotherConnectionWaitsToo(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	replica := redisserver.StartReplica(t, srv.Addr, redisserver.Options{})
	options := Options{Addrs: []string{srv.Addr}, WaitReplicas: 1, WaitTimeout: 50 * time.Millisecond}
	ctx := context.Background()
	patient := options
	patient.WaitTimeout = 10 * time.Second
	for _, id := range []string{"claimed", "done", "unknown"} {
		if a, err := open(t, patient).Admit(ctx, request(id, tool.NonIdempotent)); err != nil || a.Verdict != dedupe.Won {
			t.Fatal(a.Verdict, err)
		}
	}
	unknown := settlement("unknown", "")
	unknown.State = dedupe.Unknown
	replica.Pause()
	for try := range 2 {
		s := open(t, options) // with connections of its own
		if a, err := s.Admit(ctx, request("claimed", tool.NonIdempotent)); err == nil {
			t.Errorf("try %d: admitted %v", try, a.Verdict)
		}
		if v, err := s.Settle(ctx, settlement("done", "ok")); err == nil {
			t.Errorf("try %d: %v", try, v)
		}
		if v, err := s.Settle(ctx, unknown); err == nil {
			t.Errorf("try %d: unknown is %v", try, v)
		}
		if ok, err := storetest.Renew(ctx, s, request("claimed", 0).Key, "owner of claimed", 1, time.Minute); err == nil {
			t.Errorf("try %d: renewed %t", try, ok)
		}
	}
	replica.Resume()
	s := open(t, patient)
	if v, err := s.Settle(ctx, settlement("done", "ok")); err != nil || v != dedupe.Settled {
		t.Errorf("with the replica back: %v, %v", v, err)
	}
}

// So a settlement that the record holds already is written once more: then WAIT
// on the new connection covers it, whatever the version.
func TestASettlementSaidAgainIsWrittenAgain(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	redisserver.StartReplica(t, srv.Addr, redisserver.Options{})
	srv.Do("config", "set", "repl-ping-replica-period", 3600) // a ping counts as written, too
	s := open(t, Options{Addrs: []string{srv.Addr}})          // without WAIT, which itself writes to the replicas
	ctx := context.Background()
	for _, state := range []dedupe.State{dedupe.Done, dedupe.NotRun, dedupe.Unknown} {
		id := state.String()
		if a, err := s.Admit(ctx, request(id, tool.NonIdempotent)); err != nil || a.Verdict != dedupe.Won {
			t.Fatal(a.Verdict, err)
		}
		end := settlement(id, "ok")
		end.State = state
		var first dedupe.Record
		for try := range 2 {
			before := srv.Info("master_repl_offset")
			if v, err := s.Settle(ctx, end); err != nil || v != dedupe.Settled {
				t.Fatalf("%s, try %d: %v, %v", id, try, v, err)
			}
			if after := srv.Info("master_repl_offset"); after == before {
				t.Errorf("%s, try %d: nothing was written, the offset stays %s", id, try, after)
			}
			record, err := storetest.Lookup(ctx, s, end.Key)
			if err != nil {
				t.Fatal(err)
			}
			if try == 0 {
				first = record
			} else if diff := cmp.Diff(first, record); diff != "" {
				t.Errorf("%s: the record changed: %s", id, diff)
			}
		}
		if left, _ := srv.Do("pttl", RecordKey("sidecall:", end.Key)).(int64); time.Duration(left)*time.Millisecond < 23*time.Hour {
			t.Errorf("%s: it is remembered for %d ms more", id, left)
		}
	}
}
