//go:build prove

package redisfault

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/redisstore"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// A master dies whose replica has heard nothing from it for a while, and the
// Sentinels promote the replica. Sentinels, clients and replica know the master
// by the address of a proxy, which holds the replication link alone.
//
// Without wait_replicas the same must lose claims: otherwise nothing was tried.
func TestFailoverWithTheReplicationLinkCut(t *testing.T) {
	kept, control := &tally{}, &tally{}
	for kept.rounds < proof.Runs(1, 5) || kept.claims < proof.Runs(3_000, 50_000) {
		failover{
			waitReplicas: 1, claims: proof.Runs(3_000, 10_000), fault: linkFaults[kept.rounds%len(linkFaults)],
			lasts: proof.Pick(time.Second, 4*time.Second), returns: proof.Full(),
		}.run(t, kept)
		if t.Failed() {
			break
		}
	}
	for range proof.Runs(1, 2) {
		failover{
			claims: proof.Runs(1_000, 5_000), fault: linkFaults[control.rounds%len(linkFaults)],
			lasts: proof.Pick(time.Second, 4*time.Second),
		}.run(t, control)
	}
	if control.lostClaims == 0 || control.lostSettlements == 0 {
		t.Errorf("the control lost %d claims and %d settlements: this fault shows nothing", control.lostClaims, control.lostSettlements)
	}
	proof.Report(t, proof.Row{
		Fault: "Sentinel failover, replication link cut", Store: "redis, wait_replicas: 1",
		Runs: kept.claims, Violations: kept.lostClaims + kept.lostSettlements,
		Figure: fmt.Sprintf("%d failovers: of %d acknowledged claims %d lost, of %d settlements %d; control without wait_replicas: of %d claims %d lost, of %d settlements %d",
			kept.rounds, kept.claims, kept.lostClaims, kept.settlements, kept.lostSettlements,
			control.claims, control.lostClaims, control.settlements, control.lostSettlements),
	})
}

// tally is what the rounds come to.
type tally struct {
	rounds                      int
	claims, settlements         int // acknowledged
	lostClaims, lostSettlements int
}

// failover is one round: claims until so many are acknowledged, then a link
// that carries nothing for a while, then the death of the master.
type failover struct {
	waitReplicas int
	claims       int
	fault        linkFault
	lasts        time.Duration
	returns      bool // the old master comes back, as a replica
}

// acknowledged is a call of which the store has said that it is claimed, or
// settled.
type acknowledged struct {
	request dedupe.Request
	result  []byte // nil when it was not said to be settled
}

func (f failover) run(t *testing.T, sum *tally) {
	t.Helper()
	w := startWatched(t)
	c := claimants{store: openStore(t, redisstore.Options{
		Addrs: w.addrs, MasterName: masterName, WaitReplicas: f.waitReplicas, WaitTimeout: 500 * time.Millisecond,
	})}
	c.start()
	t.Cleanup(func() { c.stop() }) // else they would starve the next proof
	harness.WaitFor(t, "claims", func() bool { return c.acknowledged.Load() >= int64(f.claims) })
	before := c.acknowledged.Load()
	w.breakLink(f.fault, f.lasts)
	meanwhile := c.acknowledged.Load() - before
	w.failOver()
	if f.returns {
		f.fault.end(w.proxy)
		w.proxy.Refuse(false)
		w.master.Restart()
	}
	if f.returns || f.waitReplicas == 0 { // there are as many replicas as there have to be
		after := c.acknowledged.Load()
		harness.WaitFor(t, "claims on the new master", func() bool { return c.acknowledged.Load() > after+100 })
	}
	all := c.stop()
	claims, settlements := lost(t, w.replica.Addr, all)
	sum.add(all, claims, settlements)
	t.Logf("wait_replicas %d, link %s: %d claims acknowledged, %d of them while the replica heard nothing; %d claims and %d settlements lost",
		f.waitReplicas, f.fault.name, len(all), meanwhile, claims, settlements)
}

func (s *tally) add(all []acknowledged, lostClaims, lostSettlements int) {
	s.rounds++
	s.claims += len(all)
	s.lostClaims += lostClaims
	s.lostSettlements += lostSettlements
	for _, a := range all {
		if a.result != nil {
			s.settlements++
		}
	}
}

// claimants claim calls of their own all the time, and settle every second one.
type claimants struct {
	store        *redisstore.Store
	ids          atomic.Int64
	acknowledged atomic.Int64
	quit         chan struct{}
	quitOnce     sync.Once
	workers      sync.WaitGroup
	mu           sync.Mutex
	all          []acknowledged
}

func (c *claimants) start() {
	c.quit = make(chan struct{})
	for range 64 {
		c.workers.Go(func() {
			var mine []acknowledged
			for {
				select {
				case <-c.quit:
					c.mu.Lock()
					c.all = append(c.all, mine...)
					c.mu.Unlock()
					return
				default:
				}
				if a, ok := c.claim(); ok {
					c.acknowledged.Add(1)
					mine = append(mine, a)
				}
			}
		})
	}
}

// stop ends them and returns what was acknowledged.
func (c *claimants) stop() []acknowledged {
	c.quitOnce.Do(func() { close(c.quit) })
	c.workers.Wait()
	return c.all
}

// claim claims one call, and settles it when its number is even.
func (c *claimants) claim() (acknowledged, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	n := c.ids.Add(1)
	id := fmt.Sprint("id", n)
	a := acknowledged{request: dedupe.Request{
		Key: tool.CallID{Tenant: "t", Conversation: fmt.Sprint("c", n%100), ID: id}, Tool: "pay", Effect: tool.NonIdempotent,
		Fingerprint: [32]byte{1}, Owner: "owner of " + id, Lease: time.Hour, Retention: 24 * time.Hour,
	}}
	admission, err := c.store.Admit(ctx, a.request)
	if err != nil || admission.Verdict != dedupe.Won {
		return a, false
	}
	if n%2 == 0 {
		result := []byte(rand.Text())
		verdict, err := c.store.Settle(ctx, dedupe.Settlement{
			Key: a.request.Key, Owner: a.request.Owner, Epoch: admission.Record.Epoch,
			State: dedupe.Done, Attempts: 1, Result: result, Retention: 24 * time.Hour,
		})
		if err == nil && verdict == dedupe.Settled {
			a.result = result
		}
	}
	return a, true
}

// lost counts what the server at addr does not know, though it was acknowledged.
func lost(t *testing.T, addr string, all []acknowledged) (claims, settlements int) {
	t.Helper()
	store := openStore(t, redisstore.Options{Addrs: []string{addr}})
	var mu sync.Mutex
	var readers sync.WaitGroup
	for worker := range 64 {
		readers.Go(func() {
			for i := worker; i < len(all); i += 64 {
				claimKept, settlementKept, err := kept(store, all[i])
				mu.Lock()
				if err != nil {
					t.Error(err)
				}
				if !claimKept {
					claims++
				}
				if !settlementKept {
					settlements++
				}
				mu.Unlock()
			}
		})
	}
	readers.Wait()
	return claims, settlements
}

// kept reports whether what was acknowledged is still so.
func kept(store *redisstore.Store, a acknowledged) (claim, settlement bool, err error) {
	record, err := storetest.Lookup(context.Background(), store, a.request.Key)
	if err != nil {
		return false, false, err
	}
	claim = record.State != dedupe.Absent && record.Owner == a.request.Owner
	settlement = a.result == nil || record.State == dedupe.Done && string(record.Result) == string(a.result)
	return claim, settlement, nil
}

func openStore(t *testing.T, options redisstore.Options) *redisstore.Store {
	t.Helper()
	store := redisstore.New(options)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}
