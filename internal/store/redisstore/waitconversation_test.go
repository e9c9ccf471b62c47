//go:build e2e

package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// An append that no replica has acknowledged is not told as written when it is sent
// again, over whatever connection: after a failover it would be forgotten.
func TestAnAppendSentAgainWaitsForReplicasToo(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	replica := redisserver.StartReplica(t, srv.Addr, redisserver.Options{})
	options := Options{Addrs: []string{srv.Addr}, WaitReplicas: 1, WaitTimeout: 50 * time.Millisecond}
	ctx := context.Background()
	a := conversation.Append{
		Key: conversation.Key{Tenant: "acme", ID: "c"}, Provider: provider.OpenAI, Messages: []string{`{"role":"user","content":"x"}`}, ID: "one",
	}
	limits := conversation.Limits{TTL: time.Hour, Messages: 10, Bytes: 1 << 20}
	w := conversation.Write{Key: conversation.Key{Tenant: "acme", ID: "raw"}, Head: []byte("h1"), Messages: [][]byte{[]byte("m")}, TTL: time.Hour}
	// The link has to have come up before it is held.
	patient := options
	patient.WaitTimeout = 10 * time.Second
	up := a
	up.Key.ID = "up"
	if _, err := (&conversation.Book{Store: open(t, patient), Limits: limits}).Append(ctx, up); err != nil {
		t.Fatal(err)
	}
	replica.Pause()
	for try := range 3 {
		s := open(t, options) // with connections of its own
		if v, err := (&conversation.Book{Store: s, Limits: limits}).Append(ctx, a); err == nil {
			t.Errorf("try %d: at version %d", try, v)
		}
		if written, err := s.WriteConversation(ctx, w); err == nil {
			t.Errorf("try %d: written: %t", try, written)
		}
	}
	replica.Resume()
	b := &conversation.Book{Store: open(t, patient), Limits: limits}
	if v, err := b.Append(ctx, a); err != nil || v != 1 {
		t.Errorf("with the replica back: %d, %v", v, err)
	}
	if head, messages, err := b.Load(ctx, a.Key, 0, 1<<20); err != nil || head.Version != 1 || len(messages) != 1 {
		t.Errorf("%+v %v %v", head, messages, err)
	}
}

// So it is written once more, as a settlement is: then WAIT on the new connection covers
// it, whatever the version of Redis.
func TestAnAppendSentAgainIsWrittenAgain(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	redisserver.StartReplica(t, srv.Addr, redisserver.Options{})
	srv.Do("config", "set", "repl-ping-replica-period", 3600) // a ping counts as written, too
	s := open(t, Options{Addrs: []string{srv.Addr}})
	w := conversation.Write{Key: conversation.Key{Tenant: "acme", ID: "c"}, Head: []byte("h1"), Messages: [][]byte{[]byte("m")}, TTL: time.Hour}
	for try := range 3 {
		before := srv.Info("master_repl_offset")
		if written, err := s.WriteConversation(context.Background(), w); err != nil || !written {
			t.Fatalf("try %d: %t, %v", try, written, err)
		}
		if after := srv.Info("master_repl_offset"); after == before {
			t.Errorf("try %d: nothing was written, the offset stays %s", try, after)
		}
	}
	if stored, err := s.ReadConversation(context.Background(), w.Key, 0, 1000); err != nil || len(stored.Messages) != 1 {
		t.Errorf("%v, %v", stored, err)
	}
}
