package redisstore

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// lane is the way of some conversations to one server. What it sends is answered before
// it sends more: so whoever is decided there knows what those before it have done.
type lane struct {
	options *Options
	queue   chan *command
	callers atomic.Int64 // in do
	clock   *clock       // of the server

	// turn is held by whoever sends; it guards what follows.
	turn sync.Mutex
	// recent are rows as they were last seen or written: claims, tallies and who holds an
	// effect; older those before them, of which what is used comes back. They may have
	// been changed since: what is decided by them is only done if they are still true.
	recent, older map[string]row
}

// Bounds of the rows that a lane remembers.
const (
	mostRows     = 1024 // of recent ones, and as many older
	mostRowBytes = 1 << 10
)

// known returns a row as it was last seen.
func (l *lane) known(key string) (r row, known bool) {
	if r, known = l.recent[key]; known {
		return r, true
	}
	if r, known = l.older[key]; known {
		l.expect(r)
	}
	return r, known
}

// expect remembers what a row is once what is being sent has been done.
func (l *lane) expect(r row) {
	if len(r.text) > mostRowBytes || r.text == "" || settled(r.text) {
		l.forget(r.key)
		return
	}
	if l.recent == nil || len(l.recent) >= mostRows {
		l.recent, l.older = map[string]row{}, l.recent
	}
	l.recent[r.key] = r
}

// settled reports that a row is a record, and nobody holds its call any more.
func settled(text string) bool {
	return dedupe.KnownLayout(text[0]) && len(text) > 1 && dedupe.State(text[1]) != dedupe.Claimed
}

// marked reports that a row is a record whose call somebody waits for.
func marked(text string) bool { return len(text) > dedupe.MarkAt && text[dedupe.MarkAt] == 1 }

// forget forgets a row.
func (l *lane) forget(key string) {
	delete(l.recent, key)
	delete(l.older, key)
}

// hash spreads conversations over lanes: by what decides the slot of a key.
func hash(key string) uint64 {
	_, tag, _ := strings.Cut(key, "{")
	tag, _, _ = strings.Cut(tag, "}")
	if tag == "" {
		tag = key
	}
	return maphash.String(seed, tag)
}

var seed = maphash.MakeSeed()

var never = dedupe.Instant(1 << 50)

// clock is a server's, as it was last read: never ahead of it, unless that was set back.
type clock struct {
	mu   sync.Mutex
	read time.Time // by the server; zero before the first reply
	at   time.Time // when that was heard
}

func (c *clock) heard(read time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read, c.at = read, time.Now()
}

// now is at the earliest what the server's clock shows; an instant that never comes where it
// was not read yet.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read.IsZero() {
		return never
	}
	return c.read.Add(time.Since(c.at).Truncate(time.Millisecond))
}
