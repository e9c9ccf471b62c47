//go:build prove

package redisfault

import (
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sidecall/sidecall/dedupe/redisstore"
	"github.com/sidecall/sidecall/testkit/faultproxy"
)

// scriptHash is the name under which a server knows a script of the store.
func scriptHash(tb testing.TB, name string) string {
	tb.Helper()
	claims, settles := redisstore.ScriptHashes()
	hash := map[string]string{"admit.lua": claims, "settle.lua": settles}[name]
	if hash == "" {
		tb.Fatalf("there is no script of %s", name)
	}
	return hash
}

// losses loses replies of one script that grant what was asked for, after the
// server has run it, at random but the same for the same seed and the same order of replies.
type losses struct {
	script string
	share  float64 // of the replies
	end    func(keep int) faultproxy.Action

	mu     sync.Mutex
	random *rand.Rand
	lost   atomic.Int64
	keys   map[string]struct{}
}

func newLosses(script string, share float64, end func(keep int) faultproxy.Action) *losses {
	return &losses{script: script, share: share, end: end, random: rand.New(rand.NewPCG(20, 26)), keys: map[string]struct{}{}}
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
		for i, a := range answers {
			if l.concerns(a) && l.chosen() {
				l.lose(answers[i:])
				return l.end(max(a.begin, 0))
			}
		}
		return faultproxy.Pass
	}
}

// concerns reports a reply that grants what was asked for: a claim that is won,
// a settlement that is recorded.
func (l *losses) concerns(a answer) bool {
	granted := strings.HasPrefix(a.head, ":1\r\n") || a.head[0] == '*' && strings.Contains(a.head, "\r\n:1\r\n")
	return a.name == "evalsha" && a.script == l.script && granted
}

func (l *losses) chosen() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.Float64() < l.share
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
