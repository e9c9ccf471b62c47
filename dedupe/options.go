package dedupe

import (
	"cmp"
	"crypto/rand"
	"log/slog"
	"time"
)

// Options of a Dedupe; zero values mean the defaults.
type Options struct {
	// Lease is how long a claim holds without renewal. Default 30 s.
	Lease time.Duration
	// Retention is how long a record is remembered. Default 24 h; at least Lease.
	Retention time.Duration
	// Patience is how long a settlement asks a store that does not take it where there is no
	// Journal that does. Default, and at most, the Lease.
	Patience time.Duration
	// Incarnation names this process in the owner of a record. A random part that no other
	// process has is always added.
	Incarnation string
	// Instance names the sidecar of which this process is an incarnation. A process of the same
	// instance before it is succeeded: what it claimed is decided without waiting for its leases,
	// and it claims, sends and settles nothing more. Empty, or with a store that is no Tenures:
	// there is no such thing. At most MaxInstanceBytes.
	Instance string
	// Who tells others of this process, Gone whether one that says this of itself provably
	// runs no more; nil: nobody knows.
	Who  Who
	Gone func(Who) bool
	// Tenure is how long this process is the instance without a renewal, and how long a start waits
	// of which nobody can say whether its predecessor is gone. Default 5 s.
	Tenure time.Duration
	// Journal keeps the settlements that the store does not take in time; nil: memory does, and
	// the store gets them if it comes back while this process lives. Close closes it.
	Journal Journal
	// LateBytes bounds such settlements, each by Late.Bytes. Default 64 MiB with a Journal;
	// without one, none: they are lost at once.
	LateBytes int64
	// Receipts says that settlements leave receipts.
	Receipts bool
	// Log is told what becomes of them. Default: nobody.
	Log *slog.Logger
}

// withDefaults fills what was left out.
func (o Options) withDefaults() Options {
	o.Lease = cmp.Or(max(o.Lease, 0), 30*time.Second)
	o.Patience = min(cmp.Or(max(o.Patience, 0), o.Lease), o.Lease)
	o.Retention = max(cmp.Or(max(o.Retention, 0), 24*time.Hour), o.Lease)
	o.Tenure = cmp.Or(max(o.Tenure, 0), 5*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	switch {
	case o.Journal == nil:
		o.Journal = &inMemory{}
	case o.LateBytes <= 0:
		o.LateBytes = 64 << 20
	}
	// 26 random characters (130 bits): two processes never share a prefix.
	o.Incarnation += "." + rand.Text() + "."
	return o
}
