package cases

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"sync"

	"github.com/sidecall/sidecall/internal/tool"
)

// ledger is what the backends of a case were asked and have done, and what they
// are to do next. It is safe for concurrent use.
type ledger struct {
	mu sync.Mutex
	// turn is the call under way, and plan what its requests meet.
	turn target
	plan plan
	// reply is what the tool of the call answers when nothing is wrong, replies what
	// tools do otherwise, by name.
	reply   *answer
	replies map[string]answer
	// asked are the requests of the call under way at its own tool.
	asked   int
	effects map[string]int
	// done holds what makes two executions one effect.
	done map[string]bool
}

func newLedger(replies map[string]answer) *ledger {
	return &ledger{replies: replies, effects: make(map[string]int), done: make(map[string]bool)}
}

// begin says which call is under way from now on; reply is nil for the usual one.
func (l *ledger) begin(t target, p plan, reply *answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn, l.plan, l.reply, l.asked = t, p, reply, 0
}

// underWay is the tool of the call under way.
func (l *ledger) underWay() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turn.name
}

// request takes a request for a tool in: it says what happens to it, and counts its
// effect unless that is there already. sameness is what makes two executions of it
// one effect, as its declaration says; empty when nothing does.
func (l *ledger) request(t target, sameness string) fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := fault{kind: answers, effect: true}
	if t.name == l.turn.name {
		if planned := l.plan.at(l.asked); planned != nil {
			f = *planned
		}
		l.asked++
	}
	if f.body == nil && (f.kind == answers || f.kind == losesAcknowledgment) {
		reply := l.answer(t.name)
		f.body = &reply
	}
	if !f.effect || t.effect == tool.ReadOnly {
		return f
	}
	if key := t.name + "\x00" + sameness; sameness == "" || !l.done[key] {
		l.done[key] = true
		l.effects[t.name]++
	}
	return f
}

// sameness is what makes two executions of a tool one effect, as its declaration says: the key that was sent
// with it, or what it was asked.
func (t target) sameness(key, asked string) string {
	switch t.effect {
	case tool.Keyed:
		return key
	case tool.Idempotent:
		return asked
	case tool.ReadOnly, tool.NonIdempotent:
	}
	return ""
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:8])
}

// answer is what a tool answers.
func (l *ledger) answer(name string) answer {
	made, ok := l.replies[name]
	switch {
	case name == l.turn.name && l.reply != nil:
		made = *l.reply
	case !ok:
		made = answer{Status: http.StatusOK}
	}
	if made.Text == "" && made.JSON == nil {
		made.JSON = []byte(`{"ok":true}`)
	}
	return made
}

// counted are the requests of the call under way, and the effects of its tool.
func (l *ledger) counted(t target) (asked, effects int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked, l.effects[t.name]
}
