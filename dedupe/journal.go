package dedupe

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Journal keeps, durably and on this machine, the settlements that their store could not take
// when they were due: what they tell of has happened, and must not be lost. All methods are safe
// for concurrent use, but Get and Remove are called one after the other.
type Journal interface {
	// Waiting returns the entries that were there when it was opened, oldest first.
	Waiting() []Waiting
	// Put makes an entry durable before it returns nil, and gives it a number beyond those
	// before it. ErrInvalid means that no store would ever take it. With every other error
	// nobody knows whether it was kept.
	Put(late Late) (number uint64, err error)
	// Get reads an entry. ErrCorrupt means that it can be read no more, and is the journal's no
	// longer; with every other error it may be read later.
	Get(number uint64) (Late, error)
	// Remove ends an entry. It may be there once more in the next process: settling twice is
	// harmless.
	Remove(number uint64) error
	// Damaged is how many entries were found since it was opened that cannot be read.
	Damaged() int64
	// Close ends the journal; what waits stays in it.
	Close() error
}

// Waiting is an entry that waits in a journal.
type Waiting struct {
	Number uint64
	Key    tool.CallID
	Bytes  int64 // of Late.Bytes
}

// Late is a settlement that waits in a journal. It has its claim.
type Late struct {
	Settlement Settlement
	EndedAt    time.Time // by this machine's clock, which decides nothing
}

// Bytes is what an entry counts for: what it says, and 4 KiB, which bounds their number too.
func (l *Late) Bytes() int64 {
	n := int64(4<<10 + len(l.Settlement.Result))
	if l.Settlement.Output != nil {
		n += int64(len(l.Settlement.Output.Data))
	}
	return n
}

// inMemory is where late settlements wait when there is no journal, for a store that comes back
// while the process lives.
type inMemory struct {
	last atomic.Uint64
	late sync.Map // by number
}

func (m *inMemory) Waiting() []Waiting { return nil }
func (m *inMemory) Damaged() int64     { return 0 }
func (m *inMemory) Close() error       { return nil }

func (m *inMemory) Put(late Late) (uint64, error) {
	number := m.last.Add(1)
	m.late.Store(number, late)
	return number, nil
}

func (m *inMemory) Get(number uint64) (Late, error) {
	late, _ := m.late.Load(number)
	return late.(Late), nil //nolint:forcetypeassert // nothing else is stored, and nothing is read that was removed
}

func (m *inMemory) Remove(number uint64) error {
	m.late.Delete(number)
	return nil
}
