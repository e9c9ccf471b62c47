//go:build e2e

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
	"github.com/sidecall/sidecall/test/testkit/rivals"
)

// The master of a slot is killed again and again; its replica takes over, and
// it comes back as a replica. WAIT keeps what was acknowledged.
func TestClusterFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := redisserver.StartCluster(t, 3, 3)
	options := Options{Cluster: true, Addrs: cluster.Addrs(), WaitReplicas: 1, Timeout: time.Second}
	verdict := under(t, options, func(traffic *rivals.Traffic) {
		old, _ := cluster.ReplaceMaster(0)
		traffic.AwaitSettled(100)
		cluster.Failover(old) // and back, in good order
	})
	if verdict.Repeats == 0 {
		t.Error("no request was met by the failover")
	}
}

// A master whose replica hangs acknowledges nothing; the others go on, and so
// does a sidecar that starts only now.
func TestReplicasOfEachMasterHaveToHaveIt(t *testing.T) {
	t.Parallel()
	cluster := redisserver.StartCluster(t, 3, 3)
	s := open(t, Options{Cluster: true, Addrs: cluster.Addrs(), WaitReplicas: 1, Timeout: 10 * time.Second})
	alone := cluster.MasterOf(0)
	replica := cluster.ReplicaOf(alone)
	masters := map[string]*redisserver.Server{}
	for i := range 24 {
		req := spread(fmt.Sprint(i))
		masters[req.Key.ID] = cluster.MasterOf(cluster.Slot(RecordKey("sidecall:", req.Key)))
	}
	replica.Pause()
	ctx := context.Background()
	var refused, claimed atomic.Int32
	var calls sync.WaitGroup
	for id, on := range masters {
		calls.Go(func() {
			a, err := s.Admit(ctx, spread(id))
			switch {
			case on == alone && err != nil && strings.Contains(err.Error(), "fewer than 1 replicas"):
				refused.Add(1)
			case on != alone && err == nil && a.Verdict == dedupe.Won:
				claimed.Add(1)
			default:
				t.Errorf("call %s on %v: %v, %v", id, on, a.Verdict, err)
			}
		})
	}
	calls.Wait()
	if refused.Load() == 0 || claimed.Load() == 0 {
		t.Errorf("%d refused, %d claimed: want both", refused.Load(), claimed.Load())
	}
	replica.Resume()
	for id := range masters {
		until(t, "every claim", func() bool {
			a, err := s.Admit(ctx, spread(id))
			if err == nil && (a.Verdict != dedupe.Won || a.Record.Epoch != 1) {
				t.Fatalf("call %s: %v at epoch %d", id, a.Verdict, a.Record.Epoch)
			}
			return err == nil
		})
	}
}

// A master hangs: its callers wait no longer than their contexts, readiness
// says that something is wrong, its replica takes over, and nothing is left
// behind.
func TestAMasterOfAClusterHangs(t *testing.T) {
	cluster := redisserver.StartCluster(t, 3, 3)
	s := open(t, Options{Cluster: true, Addrs: cluster.Addrs(), Timeout: 5 * time.Second})
	ctx := context.Background()
	req := request("x", tool.NonIdempotent)
	slot := cluster.Slot(RecordKey("sidecall:", req.Key))
	if err := s.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Admit(ctx, req); err != nil {
		t.Fatal(err)
	}
	old := cluster.MasterOf(slot)
	heir := cluster.ReplicaOf(old)
	old.Do("wait", 1, 10_000)
	old.Pause()
	shortest := time.Hour
	for range 3 { // in one of which the machine may stand still
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		begin := time.Now()
		if a, err := s.Admit(short, req); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", a.Verdict, err)
		}
		cancel()
		shortest = min(shortest, time.Since(begin))
	}
	if shortest > 4*time.Second { // the store's own limit is 5 s
		t.Errorf("a context of 100 ms was heeded after %v", shortest)
	}
	cluster.AwaitHeir(old, heir)
	until(t, "the claim on the new master", func() bool {
		a, err := s.Admit(ctx, req)
		if err == nil && (a.Verdict != dedupe.Won || a.Record.Epoch != 1) {
			t.Fatalf("%v at epoch %d", a.Verdict, a.Record.Epoch)
		}
		return err == nil
	})
	old.Resume()
	old.AwaitInfo("role", "slave")
	until(t, "readiness", func() bool { return s.Ping(ctx) == nil })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, node := range cluster.Nodes {
		until(t, "the connections to be closed", func() bool { return clients(node) == 0 })
	}
}

// Slots move between masters while their keys are asked for.
func TestReshardingUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := redisserver.StartCluster(t, 3, 3)
	// A machine that stands still for longer than a timeout is no redirection.
	options := Options{Cluster: true, Addrs: cluster.Addrs()[:1], WaitReplicas: 1, Timeout: time.Minute, WaitTimeout: time.Minute}
	one := tool.CallID{Conversation: "0", ID: "0"} // of the load's conversations, each of which has many keys
	verdict := under(t, options, func(traffic *rivals.Traffic) {
		slot := cluster.Slot(RecordKey("sidecall:", one))
		for range 3 {
			from := cluster.MasterOf(slot)
			for _, to := range cluster.Masters() {
				if to == from {
					continue
				}
				cluster.BeginMove(slot, from, to)
				traffic.AwaitSettled(300) // new keys are on one master, old ones on the other
				cluster.MoveKeys(slot, from, to)
				traffic.AwaitSettled(100)
				cluster.EndMove(slot, from, to)
				traffic.AwaitSettled(100)
				break
			}
		}
	})
	for _, redirection := range []string{"errorstat_MOVED", "errorstat_ASK"} {
		met := false
		for _, node := range cluster.Nodes {
			met = met || node.Info(redirection) != ""
		}
		if !met {
			t.Errorf("nobody met %s", redirection)
		}
	}
	if verdict.Repeats > 0 {
		t.Errorf("%d requests failed; resharding is no reason to", verdict.Repeats)
	}
}

// The master dies, the Sentinels name another.
func TestSentinelFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	master := redisserver.Start(t, redisserver.Options{})
	for range 2 {
		redisserver.StartReplica(t, master.Addr, redisserver.Options{})
	}
	sentinels := redisserver.StartSentinels(t, 3, "main", master.Addr, redisserver.SentinelOptions{Replicas: 2})
	options := Options{
		MasterName: "main", WaitReplicas: 1, Timeout: time.Second,
		SentinelUsername: "watcher", SentinelPassword: "secret",
	}
	for _, s := range sentinels {
		s.Do(asArgs(documented(t, "watcher"))...)
		options.Addrs = append(options.Addrs, s.Addr)
	}
	verdict := under(t, options, func(*rivals.Traffic) {
		master.Kill()
		redisserver.AwaitOther(t, sentinels, "main", master.Addr)
		master.Restart() // the Sentinels make a replica of it
	})
	if verdict.Repeats == 0 {
		t.Error("no request was met by the failover")
	}
	until(t, "the old master to follow, or to be chosen again", func() bool {
		return master.Info("role") == "slave" || sentinels[0].MasterByName("main") == master.Addr
	})
}

// The host of the master and of a Sentinel hangs: of the very one that the store
// talks to.
func TestTheSentinelHangsWithTheMaster(t *testing.T) {
	t.Parallel()
	master := redisserver.Start(t, redisserver.Options{})
	redisserver.StartReplica(t, master.Addr, redisserver.Options{})
	sentinels := redisserver.StartSentinels(t, 3, "main", master.Addr, redisserver.SentinelOptions{Replicas: 1})
	options := Options{MasterName: "main", Timeout: time.Second}
	for _, s := range sentinels {
		options.Addrs = append(options.Addrs, s.Addr)
	}
	s := open(t, options)
	ctx := context.Background()
	until(t, "a claim", func() bool {
		_, err := s.Admit(ctx, request("before", tool.NonIdempotent))
		return err == nil
	})
	master.Do("wait", 1, 10_000)
	var asked *redisserver.Server
	until(t, "the store to listen to a Sentinel", func() bool {
		for _, s := range sentinels {
			if strings.Contains(s.Do("client", "list").(string), "name=sidecall ") {
				asked = s
			}
		}
		return asked != nil
	})
	master.Pause()
	asked.Pause()
	defer master.Resume()
	defer asked.Resume()
	redisserver.AwaitOther(t, slices.DeleteFunc(sentinels, func(s *redisserver.Server) bool { return s == asked }), "main", master.Addr)
	until(t, "a claim on the new master", func() bool {
		a, err := s.Admit(ctx, request("before", tool.NonIdempotent))
		if err == nil && (a.Verdict != dedupe.Won || a.Record.Epoch != 1) {
			t.Fatalf("%v at epoch %d", a.Verdict, a.Record.Epoch)
		}
		return err == nil
	})
}

// A Sentinel hangs when a store starts: the others know the master.
func TestASentinelHangsWhenAStoreStarts(t *testing.T) {
	t.Parallel()
	master := redisserver.Start(t, redisserver.Options{})
	sentinels := redisserver.StartSentinels(t, 3, "main", master.Addr, redisserver.SentinelOptions{})
	options := Options{MasterName: "main", Timeout: 4 * time.Second}
	for _, s := range sentinels {
		options.Addrs = append(options.Addrs, s.Addr)
	}
	sentinels[1].Pause()
	defer sentinels[1].Resume()
	for i := range 3 {
		s := open(t, options)
		if a, err := s.Admit(context.Background(), request(fmt.Sprint(i), tool.NonIdempotent)); err != nil || a.Verdict != dedupe.Won {
			t.Errorf("store %d: %v, %v", i, a.Verdict, err)
		}
	}
}

// A replica is promoted while the old master lives, cut off from everybody but
// one sidecar: two servers, each of which thinks that it decides.
func TestSplitBrain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		wait int
		lost bool // whether the old master's claims are lost
	}{
		"nothing is set": {lost: true},
		// The old master notices after its max-lag, and claims until then.
		"min-replicas-to-write": {args: []string{"--min-replicas-to-write", "1", "--min-replicas-max-lag", "20"}, lost: true},
		"wait_replicas":         {wait: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := redisserver.Start(t, redisserver.Options{Args: c.args})
			link := faultproxy.Start(t, old.Addr)
			heir := redisserver.StartReplica(t, link.Addr(), redisserver.Options{})
			isolated := open(t, Options{Addrs: []string{old.Addr}, WaitReplicas: c.wait, WaitTimeout: 100 * time.Millisecond})
			others := open(t, Options{Addrs: []string{heir.Addr}})
			ctx := context.Background()
			until(t, "the first claim", func() bool {
				_, err := isolated.Admit(ctx, request("before", tool.NonIdempotent))
				return err == nil
			})
			until(t, "the replica to have it", func() bool {
				_, err := old.Try("set", "ping", "x")
				n, waited := old.Try("wait", 1, 1000)
				return err == nil && waited == nil && n == int64(1)
			})
			link.Freeze() // nobody learns that the link is broken
			heir.Do("replicaof", "no", "one")

			a, err := isolated.Admit(ctx, request("during", tool.NonIdempotent))
			if acknowledged := err == nil; acknowledged != c.lost {
				t.Errorf("on the old master: %v, %v", a.Verdict, err)
			}
			// What was acknowledged before is safe.
			again := request("before", tool.NonIdempotent)
			again.Owner = "another"
			if a, err := others.Admit(ctx, again); err != nil || a.Verdict != dedupe.InFlight {
				t.Errorf("a claim from before: %v, %v", a.Verdict, err)
			}
			twice := request("during", tool.NonIdempotent)
			twice.Owner = "another"
			if a, err := others.Admit(ctx, twice); err != nil || a.Verdict != dedupe.Won {
				t.Errorf("on the new one: %v, %v", a.Verdict, err)
			}
			if c.args != nil { // in the end it refuses
				until(t, "NOREPLICAS", func() bool {
					_, err := isolated.Admit(ctx, request("later", tool.NonIdempotent))
					return err != nil
				})
			}
			link.Thaw()
		})
	}
}

// A restart of a server with an append-only file, under load.
func TestTheServerIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	verdict := under(t, Options{Addrs: []string{srv.Addr}}, func(traffic *rivals.Traffic) {
		for range 3 {
			srv.Kill()
			met := traffic.Repeats()
			until(t, "a request that the store gives up, while the server is gone", func() bool { return traffic.Repeats() > met })
			srv.Restart()
			traffic.AwaitSettled(100)
		}
	})
	if verdict.Repeats < 3 {
		t.Errorf("%d requests were met by the restarts", verdict.Repeats)
	}
}
