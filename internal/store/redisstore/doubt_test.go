//go:build e2e

package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// crowd asks for many claims at the same time, and returns the errors.
func crowd(t *testing.T, s *Store, name string) []error {
	t.Helper()
	errs := make([]error, 200)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = s.Admit(t.Context(), request(fmt.Sprint(name, i), tool.NonIdempotent)) })
	}
	all.Wait()
	return errs
}

// Of a server that has lost its replica hardly anything is claimed: each claim would have
// to be given back. What it knows it answers, and with its replica back it goes on.
func TestAServerWithoutItsReplicaIsNotAskedForClaims(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	replica := redisserver.StartReplica(t, srv.Addr, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}, WaitReplicas: 1, WaitTimeout: 200 * time.Millisecond})
	if errs := crowd(t, s, "before "); slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		t.Fatal(errors.Join(errs...))
	}
	if _, err := s.Settle(t.Context(), settlement("before 0", "ok")); err != nil {
		t.Fatal(err)
	}
	replica.Kill()
	if a, err := s.Admit(t.Context(), request("first", tool.NonIdempotent)); err == nil || errors.Is(err, dedupe.ErrUnasked) {
		t.Fatalf("the first that meets it is told %v, %v", a.Verdict, err)
	}
	unasked := 0
	for i, err := range crowd(t, s, "meanwhile ") {
		record, lookup := storetest.Lookup(t.Context(), s, request(fmt.Sprint("meanwhile ", i), 0).Key)
		switch {
		case err == nil || lookup != nil:
			t.Errorf("got %v, %v", err, lookup)
		case !errors.Is(err, dedupe.ErrUnasked):
		case record.State != dedupe.Absent:
			t.Errorf("a claim that was not asked for is %v", record.State)
		default:
			unasked++
		}
	}
	if unasked < 190 {
		t.Errorf("of 200 requests %d did not ask", unasked)
	}
	if a, err := s.Admit(t.Context(), request("before 0", tool.NonIdempotent)); err != nil || a.Verdict != dedupe.Replay {
		t.Errorf("what is done is answered by %v, %v", a.Verdict, err)
	}
	replica.Restart()
	until(t, "a claim", func() bool {
		_, err := s.Admit(t.Context(), request("after", tool.NonIdempotent))
		return err == nil
	})
	if errs := crowd(t, s, "after "); slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		t.Error(errors.Join(errs...))
	}
}

// Who is not connected to has not been asked for anything.
func TestAServerThatIsNotThereWasNotAsked(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	if _, err := s.Admit(t.Context(), request("before", tool.NonIdempotent)); err != nil {
		t.Fatal(err)
	}
	srv.Kill()
	until(t, "connections to be refused", func() bool {
		_, err := s.Admit(t.Context(), request("x", tool.NonIdempotent))
		return errors.Is(err, dedupe.ErrUnasked)
	})
}
