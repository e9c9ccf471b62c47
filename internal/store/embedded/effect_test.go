package embedded

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// pays is a request for a call with one effect, under an id of its own.
func pays(id string, effect tool.Effect) dedupe.Request {
	req := request(id, effect)
	req.EffectKey = dedupe.EffectKey{Print: [32]byte{7}, Window: time.Hour}
	return req
}

func (s *Store) mustAdmit(t *testing.T, req dedupe.Request, want dedupe.Verdict) dedupe.Admission {
	t.Helper()
	got, err := s.Admit(t.Context(), req)
	if err != nil || got.Verdict != want {
		t.Fatalf("%s: got %v, %v; want %v", req.Key.ID, got.Verdict, err, want)
	}
	return got
}

// Who holds an effect is known after a restart: by what the store has decided of the
// call then.
func TestEffectsOutliveARestart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		effect tool.Effect
		ends   dedupe.State // Claimed: it does not
		want   dedupe.Verdict
	}{
		"open":             {tool.NonIdempotent, dedupe.Claimed, dedupe.EffectUnknown},
		"open, keyed":      {tool.Keyed, dedupe.Claimed, dedupe.EffectUnknown},
		"open, idempotent": {tool.Idempotent, dedupe.Claimed, dedupe.Won},
		"done":             {tool.NonIdempotent, dedupe.Done, dedupe.DuplicateEffect},
		"not run":          {tool.NonIdempotent, dedupe.NotRun, dedupe.Won},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store.db")
			s, err := Open(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			first := pays("a", c.effect)
			s.mustAdmit(t, first, dedupe.Won)
			if c.ends != dedupe.Claimed {
				end := settlement("a", "paid")
				end.State = c.ends
				if v, err := s.Settle(t.Context(), end); err != nil || v != dedupe.Settled {
					t.Fatalf("settled: %v, %v", v, err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, path, Options{})
			got := s.mustAdmit(t, pays("b", c.effect), c.want)
			if c.want != dedupe.Won && got.Earlier != first.Key {
				t.Errorf("told of %+v", got.Earlier)
			}
			if c.ends == dedupe.Done && string(got.Record.Result) != "paid" {
				t.Errorf("it is said to have returned %q", got.Record.Result)
			}
		})
	}
}
