//go:build prove

package redisfault

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/test/testkit/faultproxy"
)

// A step of the store either claims a call or settles one: by the record that it writes.
func isClaim(s dedupe.State) bool      { return s == dedupe.Claimed }
func isSettlement(s dedupe.State) bool { return s != dedupe.Absent && s != dedupe.Claimed }

// losses loses replies to steps of one kind that grant what was asked for, after the
// server has done them, at random but the same for the same seed and the same order of replies.
type losses struct {
	of    func(writes dedupe.State) bool
	share float64 // of the pipelines
	end   func(keep int) faultproxy.Action

	mu     sync.Mutex
	random *rand.Rand
	lost   atomic.Int64
	keys   map[string]struct{}
}

func newLosses(of func(dedupe.State) bool, share float64, end func(keep int) faultproxy.Action) *losses {
	return &losses{of: of, share: share, end: end, random: rand.New(rand.NewPCG(20, 26)), keys: map[string]struct{}{}}
}

// watch is what a proxy calls for each connection.
func (l *losses) watch(*faultproxy.Conn) faultproxy.Hook {
	var w wire
	return func(way faultproxy.Direction, chunk []byte) faultproxy.Action {
		if way == faultproxy.ToTarget {
			w.asks(chunk)
			return faultproxy.Pass
		}
		answers := w.answers(chunk)
		i, lost := l.chosen(answers)
		if !lost {
			return faultproxy.Pass
		}
		l.lose(answers[i:])
		return l.end(max(answers[i].begin, 0))
	}
}

// concerns reports a reply that grants what was asked for: a claim that is won, a
// settlement that is recorded.
func (l *losses) concerns(a answer) bool { return done.MatchString(a.head) && l.of(a.writes) }

// chosen is the first reply that is lost, of those that come together: of a share of them, whatever their
// number, which goes by how many calls share a pipeline.
func (l *losses) chosen(answers []answer) (first int, lost bool) {
	var of []int
	for i, a := range answers {
		if l.concerns(a) {
			of = append(of, i)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(of) == 0 || l.random.Float64() >= l.share {
		return 0, false
	}
	return of[l.random.IntN(len(of))], true
}

// lose counts the replies that are lost together: each of them was whole, so
// the server has done what it says.
func (l *losses) lose(answers []answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range answers {
		if l.concerns(a) {
			l.lost.Add(1)
			l.keys[a.key] = struct{}{}
		}
	}
}

// calls is how many calls lost a reply, or several.
func (l *losses) calls() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys)
}
