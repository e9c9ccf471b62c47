//go:build e2e

package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// A conversation of which one key is gone, or is something else, is damaged, or begins
// anew where nothing tells of it any more; it is not mixed with what was left of it.
func TestAConversationOfWhichAKeyIsDamaged(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	ctx := context.Background()
	b := &conversation.Book{Store: open(t, Options{Addrs: []string{srv.Addr}}), Limits: conversation.Limits{TTL: time.Hour, Messages: 100, Bytes: 1 << 20}}
	const old, fresh = `{"role":"user","content":"old"}`, `{"role":"user","content":"new"}`
	said := func(id string, version int64, messages ...string) error {
		_, err := b.Append(ctx, conversation.Append{Key: conversation.Key{Tenant: "acme", ID: id}, Expected: version, Provider: provider.OpenAI, Messages: messages})
		return err
	}
	damaged := func(err error) bool {
		return errors.Is(err, conversation.ErrCorrupt) || errors.Is(err, dedupe.ErrCorrupt)
	}
	for id, spoil := range map[string]func(head, messages string){
		"no messages":    func(_, messages string) { srv.Do("del", messages) },
		"fewer messages": func(_, messages string) { srv.Do("rpop", messages) },
		"a set":          func(_, messages string) { srv.Do("del", messages); srv.Do("sadd", messages, "x") },
		"a head's list":  func(head, _ string) { srv.Do("del", head); srv.Do("rpush", head, "x") },
	} {
		if err := said(id, 0, old, old); err != nil {
			t.Fatal(err)
		}
		spoil(conversationKeys("sidecall:", conversation.Key{Tenant: "acme", ID: id}))
		if err := said(id, 2, fresh); !damaged(err) {
			t.Errorf("%s: appended: %v", id, err)
		}
		_, messages, err := b.Load(ctx, conversation.Key{Tenant: "acme", ID: id}, 0, 1<<20)
		if err == nil { // the first page of those that are there, and no more
			_, _, err = b.Load(ctx, conversation.Key{Tenant: "acme", ID: id}, int64(len(messages)), 1<<20)
		}
		if !damaged(err) {
			t.Errorf("%s: loaded: %v", id, err)
		}
	}
	if err := said("whole", 0, old); err != nil {
		t.Fatal(err)
	}
	listed, _, err := b.List(ctx, "acme", "", 100)
	if err != nil || len(listed) != 5 {
		t.Fatalf("listed: %v, %v", listed, err)
	}
	for _, one := range listed { // of the others the head is whole, and more is not looked at
		if damaged(one.Err) != (one.ID == "a head's list") || one.Err == nil != (one.Head.Version > 0) {
			t.Errorf("listed: %q, version %d, %v", one.ID, one.Head.Version, one.Err)
		}
	}
	if err := said("no head", 0, old, old); err != nil {
		t.Fatal(err)
	}
	gone := conversation.Key{Tenant: "acme", ID: "no head"}
	head, _ := conversationKeys("sidecall:", gone)
	srv.Do("del", head)
	if err := said("no head", 0, fresh); err != nil {
		t.Errorf("begun anew: %v", err)
	}
	if _, messages, err := b.Load(ctx, gone, 0, 1<<20); err != nil || len(messages) != 1 || messages[0].JSON != fresh {
		t.Errorf("begun anew it has %v, %v", messages, err)
	}
}
