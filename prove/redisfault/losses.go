//go:build prove

package redisfault

import (
	"crypto/sha1"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sidecall/sidecall/testkit/faultproxy"
	"github.com/sidecall/sidecall/testkit/harness"
)

// scriptHash is the name under which a server knows a script of the store, which
// is made of several files as in its script.go.
func scriptHash(tb testing.TB, name string) string {
	tb.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(harness.Root(), "dedupe", "redisstore", name))
		if err != nil {
			tb.Fatal(err)
		}
		return string(text)
	}
	source, files := read("script.go"), map[string]string{}
	for _, embedded := range regexp.MustCompile(`//go:embed (\S+)\n\s+(\w+) string`).FindAllStringSubmatch(source, -1) {
		files[embedded[2]] = embedded[1]
	}
	for _, script := range regexp.MustCompile(`newScript\((\w+(?: \+ \w+)*)\)`).FindAllStringSubmatch(source, -1) {
		parts := strings.Split(script[1], " + ")
		if files[parts[len(parts)-1]] != name {
			continue
		}
		hash := sha1.New()
		for _, part := range parts {
			hash.Write([]byte(read(files[part])))
		}
		return hex.EncodeToString(hash.Sum(nil))
	}
	tb.Fatalf("there is no script of %s", name)
	return ""
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
