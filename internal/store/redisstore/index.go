package redisstore

import (
	"encoding/binary"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// The index is sorted sets of entries, which all have the score 0, so that Redis has them in
// the order of their bytes: a term (16), the instant of the claim (6, in milliseconds since
// 1970, subtracted from lastInstant, so that the latest claim of a term comes first), and the
// identity of the call without its tenant. An entry follows from a term and a record: the same
// claim has the same entry, however often it is written.
//
// A set has the entries of a shard, a tenant and a period, and expires whole: nothing has to be
// looked for that is to go. Periods are as long as the entries are kept, or up to an eighth of
// that, so those of a length that may still be there are few.
const (
	instantBytes = 6
	termBytes    = len(dedupe.Term{})
	lastInstant  = 1<<(8*instantBytes) - 1
	// periodsKept is how many periods entries are kept for, at the most.
	periodsKept = 8
)

// periods are the lengths of periods in minutes: 3, 24, and of hours 3, 24, ...
var periods = [...]int64{3, 24, 3 * 60, 24 * 60, 8 * 24 * 60, 64 * 24 * 60, 512 * 24 * 60}

const aMinute = int64(time.Minute / time.Millisecond)

// periodOf is the length of the period of entries that are kept for so long, in minutes.
func periodOf(keep time.Duration) (minutes int64) {
	minutes = periods[0]
	for _, longer := range periods[1:] {
		if int64(keep/time.Minute) >= longer {
			minutes = longer
		}
	}
	return minutes
}

// appendPeriod appends the key of a period.
func appendPeriod(b []byte, prefix string, in shard, tenant string, minutes, number int64) []byte {
	return appendKey(b, prefix, "find/", in, tenant, strconv.FormatInt(minutes, 10)+"m", strconv.FormatInt(number, 10))
}

// periodsAt are the keys of the periods of a shard in which there may be entries at an instant,
// of claims since another: of each length those that may have begun by then, on whatever clock.
func periodsAt(prefix string, in shard, tenant string, now, since time.Time) (keys [len(periods)][]text) {
	for i, minutes := range periods {
		last := dedupe.Millis(now.Add(behind)) / aMinute / minutes
		first := max(last-periodsKept-1, (dedupe.Millis(since)-behind.Milliseconds())/aMinute/minutes, 0)
		for number := last; number >= min(first, last); number-- {
			keys[i] = append(keys[i], appendPeriod(nil, prefix, in, tenant, minutes, number))
		}
	}
	return keys
}

// index makes a call, whose record is at a place, found by the claim that is stored. The entries
// of one before it, which is still known, go. All that is done before anything else: a server
// that refuses it has done nothing of the step.
func (r *rows) index(key tool.CallID, terms []dedupe.Term, started time.Time, at int, keep time.Duration) {
	anew, since := started.Location() == ofStep, int64(0) // when it is done
	if !anew {
		since = dedupe.Millis(started)
	}
	r.before('I', r.period(key, keep, dedupe.Millis(started)), keep, r.entries(key, terms, since))
	if old := r.read[at].record; old != nil && r.read[at].text != "" && (anew || !old.StartedAt.Equal(started)) {
		r.unindex(key, terms, old)
	}
}

// before is write, before all others.
func (r *draft) before(what byte, at int, keep time.Duration, text text) {
	r.writes = slices.Insert(r.writes, 0, write{what: what, key: at, amount: keep.Milliseconds(), text: text})
}

// unindex takes the entries of a record out of the period in which they are. That was chosen by
// the sidecar, whose time may have been a little behind that of the server.
func (r *rows) unindex(key tool.CallID, terms []dedupe.Term, old *dedupe.Stored) {
	ms, keep := dedupe.Millis(old.StartedAt), dedupe.IndexKeep(old.Retention)
	entries := r.entries(key, terms, ms)
	at, earlier := r.period(key, keep, ms), r.period(key, keep, ms-behind.Milliseconds())
	if r.before('X', at, 0, entries); earlier != at {
		r.before('X', earlier, 0, entries)
	}
}

// behind is how far clocks may be behind each other: that of a sidecar behind that of its server,
// and those of the masters of a Cluster.
const behind = time.Minute

// period is the place of the key of the period of an instant.
func (r *draft) period(key tool.CallID, keep time.Duration, ms int64) int {
	minutes, from := periodOf(keep), len(r.scratch)
	r.scratch = appendPeriod(r.scratch, r.prefix, shardOfCall(&key), key.Tenant, minutes, ms/aMinute/minutes)
	return r.other(r.scratch[from:len(r.scratch):len(r.scratch)])
}

// entries are those of a call, as step.lua takes them: the instant of the claim, how many terms
// there are (1 byte), the terms, and the identity.
func (r *draft) entries(key tool.CallID, terms []dedupe.Term, ms int64) text {
	from := len(r.scratch)
	r.scratch = append(appendInstant(r.scratch, ms), byte(len(terms)))
	for i := range terms {
		r.scratch = append(r.scratch, terms[i][:]...)
	}
	r.scratch = appendKey(r.scratch, "", "", nowhere, key.Conversation, key.Turn, key.ID)
	return r.scratch[from:len(r.scratch):len(r.scratch)]
}

func appendInstant(b []byte, ms int64) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, uint16(ms>>32)), uint32(ms))
}

// backwards is an instant as it stands in an entry.
func backwards(ms int64) string { return string(appendInstant(nil, lastInstant-ms)) }

// entry is one of the index, without its term.
type entry string

// decode reads whose entry it is, and when the call was claimed.
func (e entry) decode(tenant string) (key tool.CallID, claimed time.Time, err error) {
	if len(e) < instantBytes {
		return key, claimed, fmt.Errorf("%w: an entry of %d bytes", dedupe.ErrCorrupt, len(e))
	}
	ms := lastInstant - int64(binary.BigEndian.Uint64(append(make([]byte, 8-instantBytes), e[:instantBytes]...)))
	key, err = callOf(url.QueryEscape(tenant) + "/" + string(e[instantBytes:]))
	return key, dedupe.Instant(ms), err
}
