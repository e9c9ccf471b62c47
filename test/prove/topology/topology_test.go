//go:build prove

package topology

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/redisstore"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
	"github.com/sidecall/sidecall/test/testkit/rivals"
)

const (
	// workers is how many calls a load has open at a time.
	workers = 16
	// patience is how long a caller goes on asking.
	patience = 2 * time.Minute
)

// howLong is how long faults are injected.
func howLong() time.Duration { return proof.Pick(6*time.Second, 2*time.Minute) }

// prove injects a fault again and again while calls are made by two sidecars'
// stores, and reports the row. inject is one fault, and returns when it is over;
// further is what the row says of a control.
func prove(t *testing.T, fault string, options redisstore.Options, inject func(*rivals.Traffic), further ...string) {
	t.Helper()
	traffic := rivals.Load{Stores: openStores(t, options), Workers: workers, Patience: patience, Name: "prove"}.Start()
	faults := 0
	for until := time.Now().Add(howLong()); time.Now().Before(until); faults++ {
		if !traffic.AwaitSettled(workers) {
			t.Errorf("after %d faults no calls are settled", faults)
			break
		}
		inject(traffic)
	}
	verdict := traffic.Stop()
	for _, complaint := range verdict.Complaints {
		t.Error(complaint)
	}
	runs := verdict.Calls
	if faults == 0 {
		runs = 0
	}
	figure := fmt.Sprintf("%d faults; each of %d calls won once and replayed; %d requests repeated; slowest call %v",
		faults, verdict.Calls, verdict.Repeats, verdict.Slowest.Round(time.Millisecond))
	proof.Report(t, proof.Row{
		Fault: fault, Store: "redis", Runs: runs, Violations: verdict.Violations,
		Figure: strings.Join(append([]string{figure}, further...), "; "),
	})
}

// openStores opens the stores of two sidecars.
func openStores(t *testing.T, options redisstore.Options) []dedupe.Store {
	t.Helper()
	stores := make([]dedupe.Store, 2)
	for i := range stores {
		store := redisstore.New(options)
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		stores[i] = store
	}
	return stores
}

func TestTheScriptsAreForgotten(t *testing.T) {
	srv := redisserver.Start(t, redisserver.Options{})
	prove(t, "SCRIPT FLUSH under load", redisstore.Options{Addrs: []string{srv.Addr}}, func(*rivals.Traffic) {
		srv.Do("script", "flush")
	})
	if srv.Info("errorstat_NOSCRIPT") == "" {
		t.Error("no script was ever missed")
	}
}

func TestTheServerIsRestarted(t *testing.T) {
	srv := redisserver.Start(t, redisserver.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	prove(t, "Redis restarted under load (AOF)", redisstore.Options{Addrs: []string{srv.Addr}}, func(*rivals.Traffic) {
		srv.Kill()
		srv.Restart()
	})
	// A server that keeps nothing must be found out, or nothing was tried.
	forgetful := redisserver.Start(t, redisserver.Options{})
	traffic := rivals.Load{Stores: openStores(t, redisstore.Options{Addrs: []string{forgetful.Addr}}), Workers: workers, Patience: patience, Name: "control"}.Start()
	traffic.AwaitSettled(10 * workers)
	forgetful.Kill()
	forgetful.Restart()
	if verdict := traffic.Stop(); verdict.Violations == 0 {
		t.Errorf("a server that forgot %d calls was not found out", verdict.Calls)
	}
}

// A master dies whose replica has heard nothing from it for a while: one that was
// killed with its link whole has handed everything over, with or without
// wait_replicas. Without it the same must lose calls, or nothing was tried.
func TestTheClusterFailsOver(t *testing.T) {
	c := startBehindProxies(t)
	options := redisstore.Options{Cluster: true, Addrs: c.Addrs(), Timeout: time.Second, WaitTimeout: 200 * time.Millisecond}
	traffic := rivals.Load{Stores: openStores(t, options), Workers: workers, Patience: patience, Name: "control"}.Start()
	if !traffic.AwaitSettled(workers) {
		t.Error("no calls are settled")
	}
	c.failOver()
	control := traffic.Stop()
	if control.Violations == 0 {
		t.Errorf("without wait_replicas none of %d calls was forgotten: this fault shows nothing", control.Calls)
	}
	options.WaitReplicas = 1
	prove(t, "Cluster failover under load, wait_replicas 1", options, func(*rivals.Traffic) { c.failOver() },
		fmt.Sprintf("replication link frozen before each; control without wait_replicas: %d calls, %d violations", control.Calls, control.Violations))
}

func TestTheClusterIsResharded(t *testing.T) {
	cluster := redisserver.StartCluster(t, 3, 3)
	turn := 0
	prove(t, "Cluster resharding under load", redisstore.Options{Cluster: true, Addrs: cluster.Addrs(), WaitReplicas: 1}, func(traffic *rivals.Traffic) {
		turn++
		slot := cluster.Slot(redisstore.RecordKey("sidecall:", tool.CallID{Tenant: "prove", Conversation: strconv.Itoa(turn % rivals.Conversations)}))
		from := cluster.MasterOf(slot)
		for _, to := range cluster.Masters() {
			if to != from {
				cluster.BeginMove(slot, from, to)
				traffic.AwaitSettled(rivals.Conversations) // some of them where the keys are half moved
				cluster.MoveKeys(slot, from, to)
				cluster.EndMove(slot, from, to)
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
}

// A server that hangs, and with it everything that was sent to it.
func TestTheServerHangs(t *testing.T) {
	srv := redisserver.Start(t, redisserver.Options{})
	options := redisstore.Options{Addrs: []string{srv.Addr}, Timeout: 200 * time.Millisecond}
	prove(t, "Redis stopped and continued (SIGSTOP) under load", options, func(traffic *rivals.Traffic) {
		srv.Pause()
		failed := traffic.Repeats()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for traffic.Repeats() == failed && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond) // until somebody has noticed
		}
		srv.Resume()
	})
}
