//go:build e2e

package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// A tenure that cannot be what was written is nobody's: nothing is taken over, and
// whoever looks is told the key. Without it everybody begins anew.
func TestATenureThatIsDamaged(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	bid := dedupe.Bid{Instance: "shop/7 {a}", Token: "mine", TTL: time.Minute, Keep: time.Hour}
	key := string(appendKey(nil, "sidecall:", "instance/", nowhere, bid.Instance))
	if strings.ContainsAny(strings.TrimPrefix(key, "sidecall:instance/"), "{}/ ") {
		t.Errorf("the key is %q", key)
	}
	for _, text := range []string{
		"", "x", `{}`, `{"number":1,"renewals":2,"left":3,"token":"token"`, `{"number":-1,"renewals":2,"left":3,"token":"token"}`,
		`{"number":1,"renewals":2,"left":3}`, `{"number":1,"renewals":2,"left":3,"token":["token"]}`,
	} {
		if text != "" {
			text = stamp(text, time.Now())
		}
		srv.Do("set", key, text)
		if _, after, err := s.Bid(t.Context(), bid); !errors.Is(err, dedupe.ErrCorrupt) || !strings.Contains(err.Error(), key) {
			t.Errorf("%q: got %+v, %v", text, after, err)
		}
	}
	srv.Do("del", key)
	if before, after, err := s.Bid(t.Context(), bid); err != nil || before.Token != "" || after.Token != bid.Token || after.Who != (dedupe.Who{}) {
		t.Errorf("without it: %+v, %v", after, err)
	}
}

// Redis is emptied under a process: it notices within a second, holds nothing that
// it claimed before, and goes on.
func TestATenureThatRedisForgets(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	d := dedupe.New(open(t, Options{Addrs: []string{srv.Addr}}), dedupe.Options{Instance: "shop", Lease: time.Hour})
	defer func() {
		if err := d.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	if err := d.Alone(t.Context()); err != nil {
		t.Fatal(err)
	}
	ticket := d.Join(request("x", 0).Key)
	defer ticket.Leave()
	admission, claim, err := ticket.Admit(t.Context(), request("x", 0))
	if err != nil || claim == nil || !claim.Held() {
		t.Fatalf("%v, %v", admission.Verdict, err)
	}
	srv.Do("flushall")
	for deadline := time.Now().Add(time.Minute); claim.Held() || d.Ping(t.Context()) != nil; {
		if time.Now().After(deadline) {
			t.Fatalf("held %v, %v", claim.Held(), d.Ping(t.Context()))
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := claim.Settle(t.Context(), dedupe.Settlement{State: dedupe.NotRun}); err != nil {
		t.Error(err)
	}
}
