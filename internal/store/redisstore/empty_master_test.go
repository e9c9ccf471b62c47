//go:build e2e

package redisstore

import (
	"testing"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// A master without an append-only file that is back before anybody has replaced
// it is empty, and its replica follows it there, whatever it had acknowledged.
func TestAMasterThatComesBackEmptyEmptiesItsReplica(t *testing.T) {
	t.Parallel()
	master := redisserver.Start(t, redisserver.Options{})
	replica := redisserver.StartReplica(t, master.Addr, redisserver.Options{})
	s := open(t, Options{Addrs: []string{master.Addr}, WaitReplicas: 1})
	until(t, "a claim that the replica has", func() bool {
		_, err := s.Admit(t.Context(), request("x", tool.NonIdempotent))
		return err == nil
	})
	if n := replica.Do("dbsize"); n == int64(0) {
		t.Fatal("the replica has nothing of what it has acknowledged")
	}
	master.Kill()
	master.Restart()
	until(t, "the replica to be empty", func() bool { return replica.Do("dbsize") == int64(0) })
	again := request("x", tool.NonIdempotent)
	again.Owner = "another"
	var verdict dedupe.Verdict
	until(t, "the same id to be admitted", func() bool {
		a, err := s.Admit(t.Context(), again)
		verdict = a.Verdict
		return err == nil
	})
	if verdict != dedupe.Won {
		t.Errorf("the forgotten call is answered %v, want %v", verdict, dedupe.Won)
	}
}
