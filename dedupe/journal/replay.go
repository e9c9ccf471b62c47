package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"

	"github.com/sidecall/sidecall/dedupe"
)

// What is handed out at a time: so many entries, of so many bytes beyond the
// first. It bounds the memory of a replay and the load on a store that has just
// come back.
const (
	groupLength = 32
	groupBytes  = 4 << 20
)

// Replay implements dedupe.Journal. It begins where the one before gave up, and
// comes to the older entries after that: a group that the store refuses for its
// own sake, which may be one large entry, stands in nobody's way.
func (j *Journal) Replay(ctx context.Context, settle func(context.Context, dedupe.Late) error) error {
	var left error // of the last entry that stayed
	start := j.gaveUp.Swap(0)
	for after, again := start, start == 0; ; {
		group := j.oldest(after)
		if again && start > 0 && len(group) > 0 && group[0].seq > start {
			return left
		}
		if len(group) == 0 {
			if again {
				return left
			}
			after, again = 0, true
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		after = group[len(group)-1].seq
		failed, err := j.handOut(ctx, group, settle)
		if err != nil {
			left = err
		}
		if failed == len(group) {
			j.gaveUp.Store(after)
			return left // it would hardly be better with the others
		}
	}
}

// handOut hands out a group at once and returns how many stay, and why one of
// them does.
func (j *Journal) handOut(ctx context.Context, group []slot, settle func(context.Context, dedupe.Late) error) (failed int, left error) {
	errs := make([]error, len(group))
	var all sync.WaitGroup
	for i, s := range group {
		all.Go(func() {
			late, ok, err := j.read(s.seq)
			if !ok {
				errs[i] = err
				return
			}
			if errs[i] = settle(ctx, late); errs[i] == nil {
				j.Done(s.seq)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			failed, left = failed+1, err
		}
	}
	return failed, left
}

// oldest returns the entries that wait and come after a sequence number, as
// many as make a group.
func (j *Journal) oldest(after uint64) []slot {
	j.mu.Lock()
	defer j.mu.Unlock()
	var group []slot
	bytes := int64(0)
	first := sort.Search(len(j.slots), func(i int) bool { return j.slots[i].seq > after })
	for _, s := range j.slots[first:] {
		if s.done {
			continue
		}
		if bytes += s.size; len(group) > 0 && bytes > groupBytes || len(group) == groupLength {
			break
		}
		group = append(group, *s)
	}
	return group
}

// Find implements dedupe.Journal.
func (j *Journal) Find(key dedupe.Key) (dedupe.Late, bool) {
	j.mu.Lock()
	s, ok := j.byKey[key]
	j.mu.Unlock()
	if !ok {
		return dedupe.Late{}, false
	}
	late, ok, _ := j.read(s.seq) // a replay tells of the error
	return late, ok
}

// read returns an entry that waits; false when it does not wait any more, or is
// damaged, which ends it. With an error it still waits and cannot be read now.
func (j *Journal) read(seq uint64) (late dedupe.Late, ok bool, err error) {
	j.io.RLock()
	defer j.io.RUnlock()
	j.mu.Lock()
	s, ok := j.bySeq[seq]
	var at, size int64
	if ok {
		at, size = s.offset, s.size
	}
	closed := j.closed
	j.mu.Unlock()
	if !ok || closed {
		return dedupe.Late{}, false, nil
	}
	late, err = j.readEntry(at, size)
	var unread *unreadError
	switch {
	case errors.As(err, &unread):
		return dedupe.Late{}, false, fmt.Errorf("journal %s: %w", j.path, err)
	case err != nil:
		return dedupe.Late{}, false, j.giveUp(seq, at, size, err)
	}
	late.Seq = seq
	return late, true, nil
}

// unreadError is an error of the disk, which says nothing of what is on it.
type unreadError struct{ error }

func (e *unreadError) Unwrap() error { return e.error }

func (j *Journal) readEntry(at, size int64) (dedupe.Late, error) {
	b := make([]byte, size)
	if err := readFull(j.file, b, at); errors.Is(err, io.EOF) {
		return dedupe.Late{}, err // somebody has cut the file
	} else if err != nil {
		return dedupe.Late{}, &unreadError{err}
	}
	id, h, ok := parseHead(b[:headSize])
	body := b[headSize:]
	switch {
	case !ok || id != j.id || h.length != int64(len(body)):
		return dedupe.Late{}, errors.New("the head of an entry is damaged")
	case checksum(body) != h.crc:
		return dedupe.Late{}, errChecksum
	}
	return decode(body)
}

// giveUp ends an entry that was whole when it was written and can be read no
// longer. The file is set aside before anything of it can be cut off; when that
// fails, the entry stays.
func (j *Journal) giveUp(seq uint64, at, size int64, why error) error {
	j.mu.Lock()
	end := j.end
	j.mu.Unlock()
	name, err := j.setAside(end)
	if err != nil {
		return fmt.Errorf("journal %s: it is damaged at offset %d (%w) and cannot be set aside: %w", j.path, at, why, err)
	}
	if j.Done(seq) {
		j.damaged.Add(1)
		j.options.Log.Error("the journal is damaged: an entry is lost to the store, and its call stays unknown",
			"path", j.path, "offset", at, "bytes", size, "reason", why, "kept_as", name)
	}
	return nil
}
