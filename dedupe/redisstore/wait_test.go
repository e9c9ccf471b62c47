//go:build e2e

package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/prove/redisserver"
	"github.com/sidecall/sidecall/tool"
)

// WAIT speaks of its own connection. Whoever repeats a request after a lost
// connection, and finds it done, has written nothing on the new one, and still
// must not be told that the replicas have it: to Redis every command counts, not
// only those that write.
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
		if ok, err := s.Renew(ctx, request("claimed", 0).Key, "owner of claimed", 1, time.Minute); err == nil {
			t.Errorf("try %d: renewed %t", try, ok)
		}
	}
	replica.Resume()
	s := open(t, patient)
	if v, err := s.Settle(ctx, settlement("done", "ok")); err != nil || v != dedupe.Settled {
		t.Errorf("with the replica back: %v, %v", v, err)
	}
}
