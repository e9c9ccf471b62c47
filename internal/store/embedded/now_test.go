package embedded

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// What Now says can be compared with the instants of records.
func TestNowIsTheTimeOfTheRecords(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "calls.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	before, _ := s.Now(t.Context())
	a, err := s.Admit(t.Context(), dedupe.Request{
		Key: tool.CallID{ID: "x"}, Tool: "t", Effect: tool.NonIdempotent, Owner: "o", Lease: 1e9, Retention: 1e10,
	})
	if err != nil {
		t.Fatal(err)
	}
	after, _ := s.Now(t.Context())
	if a.Record.StartedAt.Before(before) || after.Before(a.Record.StartedAt) {
		t.Errorf("claimed at %v, between %v and %v", a.Record.StartedAt, before, after)
	}
}

// A store that was written while the wall clock was centuries ahead goes on from there, also
// from further ahead than a time.Duration is long.
func TestTheClockGoesOnFromAnyInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, years := range []int{-1000, 0, 1, 291, 293, 8000} {
			began := time.Now().Truncate(time.Millisecond)
			high := began.AddDate(years, 0, 0)
			if years < 0 {
				high = time.Time{}
			}
			c := newClock(high)
			time.Sleep(time.Minute)
			want := high
			if began.After(want) {
				want = began
			}
			if got := c.now(); !got.Equal(want.Add(time.Minute)) {
				t.Errorf("%d years ahead it is %v, a minute after %v", years, got, want)
			}
		}
	})
}
