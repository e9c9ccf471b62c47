//go:build e2e

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// documentedUser is what docs/redis.md tells an operator to type for the user
// of a sidecar, in words.
func documentedUser(t *testing.T) []string {
	t.Helper()
	return documented(t, "sidecall")
}

func documented(t *testing.T, user string) []string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 2 && words[0] == "ACL" && words[1] == "SETUSER" && words[2] == user {
			return words
		}
	}
	t.Fatalf("docs/redis.md has no ACL SETUSER line of %s", user)
	return nil
}

// asArgs turns words into what Server.Do takes.
func asArgs(words []string) []any {
	args := make([]any, len(words))
	for i, word := range words {
		args[i] = word
	}
	return args
}

func withLeastRights(t *testing.T) crashJob {
	t.Helper()
	srv := redisserver.Start(t, redisserver.Options{})
	srv.Do(asArgs(documentedUser(t))...)
	return crashJob{Addrs: []string{srv.Addr}, Username: "sidecall", Password: "secret"}
}

func clusteredWithLeastRights(t *testing.T) crashJob {
	t.Helper()
	cluster := redisserver.StartCluster(t, 3, 3)
	for _, node := range cluster.Nodes {
		node.Do(asArgs(documentedUser(t))...)
	}
	return crashJob{Cluster: true, Addrs: cluster.Addrs(), Username: "sidecall", Password: "secret"}
}

// Each of the rights is needed: without it Redis refuses something that a
// sidecar does.
func TestNoRightIsTooMuch(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	redisserver.StartReplica(t, srv.Addr, redisserver.Options{})
	user := documentedUser(t)
	options := Options{
		Addrs: []string{srv.Addr}, Username: "sidecall", Password: "secret",
		WaitReplicas: 1, WaitTimeout: 10 * time.Second,
	}
	srv.Do(asArgs(user)...)
	if err := everything(t, open(t, options), "all rights"); err != nil {
		t.Fatalf("with all rights: %v", err)
	}
	onACluster := map[string]bool{"+cluster|slots": true, "+asking": true}
	for _, right := range user {
		if !strings.HasPrefix(right, "+") || onACluster[right] {
			continue
		}
		srv.Do("acl", "log", "reset")
		srv.Do("script", "flush")
		srv.Do("acl", "setuser", "sidecall", "-"+right[1:])
		s := open(t, options)
		_ = everything(t, s, right) // some of it may go on; the log of Redis counts
		// A subscription is asked whether it lives when it has been silent.
		_, stop := s.Watch(request(right, 0).Key)
		deadline := time.Now().Add(30 * time.Second)
		for len(srv.Do("acl", "log").([]any)) == 0 {
			if time.Now().After(deadline) {
				t.Errorf("nothing is refused without %s", right)
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		stop()
		srv.Do(asArgs(user)...)
	}
}

// hintTime bounds the wait for a hint, on a machine that is busy.
const hintTime = 10 * time.Second

// everything does all that a sidecar does, and returns the first that fails.
func everything(t *testing.T, s *Store, id string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	warnings, _, err := s.check(ctx)
	if err := errors.Join(err, s.Ping(ctx)); err != nil {
		return err
	}
	if text := strings.Join(warnings, ""); strings.Contains(text, "not allowed") {
		return errors.New(text)
	}
	if _, _, err := s.Bid(ctx, dedupe.Bid{Instance: id, Token: "t", TTL: time.Second, Keep: time.Second}); err != nil {
		return err
	}
	counted := request(id, tool.NonIdempotent)
	counted.Draw, counted.Logs = dedupe.Draw{Counter: id, MaxCalls: 10}, []string{id}
	if _, err := s.Admit(ctx, counted); err != nil {
		return err
	}
	hints, stop := s.Watch(request(id, 0).Key)
	defer stop()
	select {
	case <-hints: // the subscription is there
	case <-time.After(hintTime):
		return errors.New("no subscription")
	}
	other := request(id, tool.NonIdempotent)
	other.Owner = "another"
	if a, err := s.Admit(ctx, other); err != nil || a.Verdict != dedupe.InFlight {
		return fmt.Errorf("the duplicate: %v, %w", a.Verdict, err)
	}
	if _, err := storetest.Renew(ctx, s, other.Key, "owner of "+id, 1, time.Minute); err != nil {
		return err
	}
	end := settlement(id, "")
	end.State, end.Output = dedupe.Unknown, &dedupe.Output{Ref: id, Data: []byte("long"), TTL: time.Hour}
	for range 2 { // said again when the reply was lost
		if _, err := s.Settle(ctx, end); err != nil {
			return err
		}
	}
	refused := dedupe.Note{
		Key: request(id+" refused", 0).Key, Retention: time.Hour, Appends: []dedupe.Append{{Log: id, Entry: []byte("entry"), Keep: 2}},
	}
	for range 2 { // the second is written behind the first
		if _, err := s.Note(ctx, refused); err != nil {
			return err
		}
	}
	select {
	case <-hints:
	case <-time.After(hintTime):
		return errors.New("no hint")
	}
	if _, err := s.Output(ctx, "acme", id); err != nil {
		return err
	}
	kept := conversation.Write{Key: conversation.Key{Tenant: "acme", ID: id}, Head: []byte("head"), Messages: [][]byte{[]byte("message")}, TTL: time.Hour}
	if _, err := s.WriteConversation(ctx, kept); err != nil {
		return err
	}
	if got, err := s.ReadConversation(ctx, kept.Key, 0, 100); err != nil || len(got.Messages) != 1 {
		return fmt.Errorf("a conversation with %d messages, %w", len(got.Messages), err)
	}
	if err := indexes(ctx, s, id); err != nil {
		return err
	}
	page, err := s.ListOpen(ctx, "")
	for err == nil && page.Next != "" && len(page.Calls) == 0 {
		page, err = s.ListOpen(ctx, page.Next)
	}
	if err == nil && len(page.Calls) == 0 {
		err = errors.New("the unknown call is not listed")
	}
	return err
}

// indexes claims a call again and again, until that is at another time than before, and finds it.
func indexes(ctx context.Context, s *Store, id string) error {
	req := request(id+" again", tool.NonIdempotent)
	req.Terms = []dedupe.Term{{1}}
	var claims []time.Time
	for i := 0; len(claims) < 2 || claims[i-1].Equal(claims[i-2]); i++ {
		req.Owner = fmt.Sprint(i)
		a, err := s.Admit(ctx, req)
		if err != nil {
			return err
		}
		claims = append(claims, a.Record.StartedAt)
		end := settlement(req.Key.ID, "")
		end.Owner, end.Epoch, end.State = req.Owner, a.Record.Epoch, dedupe.NotRun
		if _, err := s.Settle(ctx, end); err != nil {
			return err
		}
	}
	page, err := s.Find(ctx, dedupe.Search{Tenant: req.Key.Tenant, Term: req.Terms[0], Most: dedupe.MaxFound})
	if err == nil && !slices.ContainsFunc(page.Calls, func(call dedupe.Listed) bool { return call.Key == req.Key }) {
		err = errors.New("the call is not found")
	}
	return err
}
