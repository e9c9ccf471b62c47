package call

import (
	"sync"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// maxReplayed bounds the calls whose replays are counted.
const maxReplayed = 10_000

// replays counts how often this process has answered a call from its record. It is kept here
// alone: a replay writes nothing. The zero value is empty.
type replays struct {
	mu    sync.Mutex
	known map[tool.CallID]replayed
}

type replayed struct {
	times int64
	last  time.Time
}

func (r *replays) add(key tool.CallID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[tool.CallID]replayed{}
	}
	of, known := r.known[key]
	if !known && len(r.known) == maxReplayed {
		r.drop()
	}
	r.known[key] = replayed{of.times + 1, time.Now()}
}

// drop makes room for one, at the cost of the oldest of some.
func (r *replays) drop() {
	var oldest tool.CallID
	looked := 0
	for key, of := range r.known {
		if looked == 0 || of.last.Before(r.known[oldest].last) {
			oldest = key
		}
		if looked++; looked == 16 {
			break
		}
	}
	delete(r.known, oldest)
}

func (r *replays) of(key tool.CallID) replayed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[key]
}
