//go:build e2e

package redisserver

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestAServerAndItsReplica(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	s.Do("set", "k", "v")
	s.Kill()
	if _, err := s.Try("ping"); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart()
	replica := StartReplica(t, s.Addr, Options{})
	if got := replica.Do("get", "k"); got != "v" {
		t.Errorf("the replica has %v", got)
	}
	s.Pause()
	client := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := client.Ping(ctx).Err(); err == nil {
		t.Error("a paused server answers")
	}
	s.Resume()
	s.Await()
}

// TestAServerWhoseClockJumps expires what it keeps by its own clock.
func TestAServerWhoseClockJumps(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{Clock: true})
	now := func() int64 {
		seconds, err := strconv.ParseInt(s.Do("time").([]any)[0].(string), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return seconds
	}
	before := now()
	s.Do("set", "k", "v", "px", "3600000")
	s.Jump(59 * time.Minute)
	if got := s.Do("get", "k"); got != "v" || now() < before+59*60 {
		t.Errorf("a minute early it has %v, at %d, before %d", got, now(), before)
	}
	s.Jump(time.Minute)
	if got := s.Do("get", "k"); got != nil {
		t.Errorf("in its time it has %v", got)
	}
	s.Jump(-24 * time.Hour)
	if after := now(); after > before {
		t.Errorf("set back by a day it says %d, before %d", after, before)
	}
}

func TestAServerWithTLSAndUsers(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{TLS: true, Password: "root-secret", Users: []string{"app on >app-secret ~* +get"}})
	replica := StartReplica(t, s.Addr, Options{TLS: true, Password: "root-secret"})
	s.Do("set", "k", "v")
	s.Do("wait", 1, 10_000)
	if got := replica.Do("get", "k"); got != "v" {
		t.Errorf("the replica has %v", got)
	}
	client := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "app", Password: "app-secret", TLSConfig: s.TLSConfig(), MaxRetries: -1})
	defer client.Close()
	if got, err := client.Get(t.Context(), "k").Result(); err != nil || got != "v" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := client.Set(t.Context(), "k", "w", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
		t.Errorf("a user without the right to: %v", err)
	}
	unknown := s.TLSConfig()
	unknown.Certificates = nil
	stranger := redis.NewClient(&redis.Options{Addr: s.Addr, Password: "root-secret", TLSConfig: unknown, MaxRetries: -1})
	defer stranger.Close()
	if err := stranger.Ping(t.Context()).Err(); err == nil {
		t.Error("a client without a certificate is served")
	}
}

func TestSentinelsReplaceTheMaster(t *testing.T) {
	t.Parallel()
	master := Start(t, Options{Password: "secret"})
	replica := StartReplica(t, master.Addr, Options{Password: "secret"})
	sentinels := StartSentinels(t, 3, "main", master.Addr, SentinelOptions{Replicas: 1, MasterPassword: "secret"})
	if got := sentinels[0].MasterByName("main"); got != master.Addr {
		t.Errorf("the master is at %s, want %s", got, master.Addr)
	}
	master.Kill()
	AwaitOther(t, sentinels, "main", master.Addr)
	if got := sentinels[2].MasterByName("main"); got != replica.Addr {
		t.Errorf("the master is at %s, want %s", got, replica.Addr)
	}
	replica.AwaitInfo("role", "master")
}

func TestAClusterMovesSlotsAndRoles(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 3, 3)
	slot := c.Slot("k")
	from := c.MasterOf(slot)
	from.Do("set", "k", "v")
	var to *Server
	for _, node := range c.Masters() {
		if node != from {
			to = node
		}
	}
	c.MoveSlot(slot, to)
	if got := to.Do("get", "k"); got != "v" || c.MasterOf(slot) != to {
		t.Errorf("got %v, and %v serves it", got, c.MasterOf(slot))
	}
	replica := c.ReplicaOf(to)
	c.Failover(replica)
	waitFor(t, "the replica to serve the slot", func() bool { return c.MasterOf(slot) == replica })
	if got := replica.Do("get", "k"); got != "v" {
		t.Errorf("after the failover: %v", got)
	}
	c.KillAll()
}

// A node that is back is the replica of its heir at once, for one who asks:
// until the heir has heard of it, it is waited for.
func TestAMasterIsReplacedAgainAndAgain(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 3, 3)
	for range 4 {
		old, heir := c.ReplaceMaster(0)
		if got := c.ReplicaOf(heir); got != old {
			t.Errorf("the replica is %v, want %v", got, old)
		}
	}
}
