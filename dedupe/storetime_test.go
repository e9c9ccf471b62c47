package dedupe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
)

// clockStore has a time of its own.
type clockStore struct {
	dedupe.Store

	now time.Time
	err error
}

func (s clockStore) Now(context.Context) (time.Time, error) { return s.now, s.err }

func TestNowIsTheStores(t *testing.T) {
	its := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	failure := errors.New("down")
	for name, store := range map[string]clockStore{
		"a clock":          {embedded.InMemory(embedded.Options{}), its, nil},
		"one that is down": {embedded.InMemory(embedded.Options{}), time.Time{}, failure},
	} {
		d := dedupe.New(store, dedupe.Options{})
		now, err := d.Now(t.Context())
		if !now.Equal(store.now) || !errors.Is(err, store.err) {
			t.Errorf("%s: %v, %v", name, now, err)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
