package app

import (
	"errors"
	"fmt"
	"os"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/telemetry"
)

// openDedupe opens the store and the journal, what keeps the records of calls in them,
// and what keeps conversations in the store. Closing the first closes them. In a store that is
// brought there are no conversations, and none come to it.
func openDedupe(cfg *config.Config, instance string, t *telemetry.Telemetry, brought dedupe.Store) (*dedupe.Dedupe, *conversation.Book, error) {
	var kept conversation.Store
	store := brought
	if brought != nil {
		kept = embedded.InMemory(embedded.Options{MaxBytes: 1 << 20})
	} else {
		opened, err := openStore(cfg, t)
		if err != nil {
			return nil, nil, err
		}
		store, kept = opened, opened
	}
	journal, err := openJournal(cfg, t)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return dedupe.New(store, dedupe.Options{
		Journal: journal, LateBytes: lateBytes(cfg), Log: t.Logger,
		Lease: cfg.Lease, Patience: call.SettleTimeout, Retention: cfg.Retention, Receipts: cfg.Receipts, Incarnation: incarnation(),
		Instance: contested(cfg, instance), Who: self(), Gone: gone,
	}), newBook(cfg, kept), nil
}

func newBook(cfg *config.Config, store conversation.Store) *conversation.Book {
	kept := cfg.Conversations
	return &conversation.Book{Store: store, Limits: conversation.Limits{
		TTL: kept.TTL, Messages: int64(kept.MaxMessages), Bytes: int64(kept.MaxBytes),
	}}
}

// contested is the instance where other processes may be the same one: an embedded
// store is locked by its process, and memory is its process's own.
func contested(cfg *config.Config, instance string) string {
	if cfg.Store.Kind() != "redis" {
		return ""
	}
	return instance
}

// maxLateBytes is what may wait in memory for a disk that stands still.
const maxLateBytes = 16 << 20

// lateBytes bounds what waits in the journal, or in memory for the store that has no
// journal unless a second disk is there for one. Who has switched the journal of another
// store off is taken at his word.
func lateBytes(cfg *config.Config) int64 {
	switch kind := cfg.Store.Kind(); {
	case cfg.Journal.On(kind):
		return int64(cfg.Journal.MaxBytes)
	case kind == "embedded":
		return maxLateBytes
	default:
		return 0
	}
}

// incarnation names this process in the records it owns.
func incarnation() string {
	return fmt.Sprintf("%s-%d", hostName(), os.Getpid())
}
