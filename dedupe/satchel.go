package dedupe

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// satchel is the journal of a courier that has no file for one: settlements that
// wait in memory, and are lost with the process. It is there for a store that
// comes back while the process lives, as one does whose disk stood still.
type satchel struct {
	max int64 // bytes

	mu    sync.Mutex
	late  []Late // in the order of their numbers
	bytes int64
	seq   uint64
}

var _ Journal = (*satchel)(nil)

// lateBytes is what a settlement counts for beside its result and output: so the
// number of small ones is bounded too, and with it the time to find one.
const lateBytes = 4 << 10

func weigh(late Late) int64 {
	n := int64(lateBytes + len(late.Settlement.Result))
	if late.Settlement.Output != nil {
		n += int64(len(late.Settlement.Output.Data))
	}
	return n
}

// Append implements Journal. It does not wait, and nothing becomes durable.
func (s *satchel) Append(_ context.Context, late Late) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes+weigh(late) > s.max {
		return fmt.Errorf("%w: %d bytes of settlements wait in memory, at most %d may", ErrFull, s.bytes, s.max)
	}
	s.seq++
	late.Seq = s.seq
	s.late = append(s.late, late)
	s.bytes += weigh(late)
	return nil
}

// satchelGroup is how many are handed out at a time.
const satchelGroup = 16

// Replay implements Journal.
func (s *satchel) Replay(ctx context.Context, settle func(context.Context, Late) error) error {
	var left error
	for group := s.after(0); len(group) > 0; group = s.after(group[len(group)-1].Seq) {
		errs := make([]error, len(group))
		var all sync.WaitGroup
		for i, late := range group {
			all.Go(func() {
				if errs[i] = settle(ctx, late); errs[i] == nil {
					s.Done(late.Seq)
				}
			})
		}
		all.Wait()
		failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
		if len(failed) > 0 {
			left = failed[0]
		}
		if len(failed) == len(group) {
			return left
		}
	}
	return left
}

// after returns a group of those that wait, from a number on.
func (s *satchel) after(seq uint64) []Late {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := slices.IndexFunc(s.late, func(late Late) bool { return late.Seq > seq })
	if from < 0 {
		return nil
	}
	return slices.Clone(s.late[from:min(len(s.late), from+satchelGroup)])
}

// Find implements Journal.
func (s *satchel) Find(key Key) (Late, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, late := range slices.Backward(s.late) {
		if late.Settlement.Key == key {
			return late, true
		}
	}
	return Late{}, false
}

// Done implements Journal.
func (s *satchel) Done(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.late, func(late Late) bool { return late.Seq == seq })
	if at < 0 {
		return false
	}
	s.bytes -= weigh(s.late[at])
	s.late = slices.Delete(s.late, at, at+1)
	return true
}

// Waiting implements Journal.
func (s *satchel) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.late)
}

// Damaged implements Journal.
func (s *satchel) Damaged() int64 { return 0 }

// Close implements Journal. What waits is lost with the process.
func (s *satchel) Close() error { return nil }
