package redisstore

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// lane is the way to one server. What it sends is answered before
// it sends more: so whoever is decided there knows what those before it have done.
//
// A caller that is alone there sends its own command at once, which saves waking another and
// being woken by it. What comes meanwhile waits, and is sent together. A group waits for nobody
// but those that the last one has just set free, who are about to ask again: to let them run
// first costs microseconds, and saves sending the quickest of them alone.
type lane struct {
	options *Options
	// few says that the server had too few replicas at its last exchange. What is claimed there
	// is not acknowledged, and has to be given back: so one request at a time asks for a
	// claim, until there are enough again, and the others are answered from their records,
	// or refused.
	few, asks atomic.Bool

	callers atomic.Int32 // who have entered, and not left

	mu      sync.Mutex
	waiting []*command
	sending bool

	// What follows is of whoever sends. recent are rows as they were last seen or written:
	// claims, tallies and who holds an effect; older those before them, of which what is used
	// comes back. They may have been changed since: what is decided by them is only done if
	// they are still true.
	clock         clock
	group         []*command
	recent, older map[string]row
}

// enter puts a command into the lane. The first is to see that it is sent; one that is alone
// sends it.
func (l *lane) enter(c *command) (first, alone bool) {
	alone = l.callers.Add(1) == 1
	l.mu.Lock()
	defer l.mu.Unlock()
	first = !l.sending
	l.sending = true
	if alone = alone && first; !alone {
		l.waiting = append(l.waiting, c)
	}
	return first, alone
}

const (
	groupLength  = 128 // of one pipeline, at the most
	groupBytes   = 4 << 20
	mostRows     = 2048 // that a lane remembers as recent, and as many older
	mostRowBytes = 1 << 10
)

// next is the next group: those that are to be sent again, and what waits behind them, so
// that nobody waits for a row that others change all the time; but those whose callers have
// given up. Without any nobody sends any more.
func (l *lane) next(again []*command) []*command {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.DeleteFunc(slices.Insert(l.waiting, 0, again...), func(c *command) bool { return c.ctx.Err() != nil })
	bytes, n := 0, 0
	for ; n < len(l.waiting) && n < groupLength && bytes < groupBytes; n++ {
		bytes += l.waiting[n].step.Bytes
	}
	l.group = append(l.group[:0], l.waiting[:n]...)
	l.waiting = slices.Delete(l.waiting, 0, n)
	l.sending = len(l.group) > 0
	return l.group
}

// gather is next, when those have come who are about to, or as many as make a group.
func (l *lane) gather(again []*command) []*command {
	for yields, came := 0, -1; yields < 3 && came < groupLength; yields++ {
		l.mu.Lock()
		now := len(l.waiting)
		l.mu.Unlock()
		if now != came {
			yields, came = 0, now
		}
		runtime.Gosched()
	}
	return l.next(again)
}

// known returns a row as it was last seen.
func (l *lane) known(key []byte) (r row, known bool) {
	if r, known = l.recent[string(key)]; known {
		return r, true
	}
	if r, known = l.older[string(key)]; known {
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

func (l *lane) forget(key string) {
	delete(l.recent, key)
	delete(l.older, key)
}

// clock is a server's, as it was last read, and when that was: never ahead of it, unless it was
// set back.
type clock struct{ read, at time.Time }

func (c *clock) heard(read time.Time) { c.read, c.at = read, time.Now() }

// now is at the earliest what the server's clock shows; an instant that never comes where it
// was not read yet.
func (c *clock) now() time.Time {
	if c.at.IsZero() {
		return dedupe.Instant(1 << 50)
	}
	return c.read.Add(time.Since(c.at)).Truncate(time.Millisecond)
}
