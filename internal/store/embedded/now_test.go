package embedded

import (
	"path/filepath"
	"testing"

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
