package mcptool

import (
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend"
)

// inbox takes what a server sends before the SDK sees any of it, whatever the
// transport: an answer goes to the capture that waits for it, a note of progress to
// the call that it is about, and to the SDK what is left.
type inbox struct {
	backlog

	// changed says that the tool list may have changed, suspect that the
	// server may hang. Both hold one signal and lose more.
	changed chan struct{}
	suspect chan struct{}
	// expired is closed when the server says that it does not know the
	// session any more.
	expired    chan struct{}
	expireOnce sync.Once
	// lastHeard is when a message last arrived, in Unix nanoseconds.
	lastHeard atomic.Int64

	mu       sync.Mutex
	waiting  map[jsonrpc.ID]*capture
	progress map[string]func(backend.Sign)
	// hear is told of what is for everybody; nil of an inbox that nobody listens at.
	hear func(method string, params json.RawMessage)
	// callers are those of the calls that are under way, nil for one that cannot be told.
	callers map[*hearing]backend.Caller
	// lingers is until when the server may be at work on a call that nobody waits for any more.
	lingers time.Time
}

// lingering is for how long a server may go on with a call that was given up.
const lingering = 15 * time.Minute

func newInbox() *inbox {
	in := &inbox{
		changed:  make(chan struct{}, 1),
		suspect:  make(chan struct{}, 1),
		expired:  make(chan struct{}),
		waiting:  make(map[jsonrpc.ID]*capture),
		progress: make(map[string]func(backend.Sign)),
		callers:  make(map[*hearing]backend.Caller),
	}
	in.heard()
	return in
}

// await has the answer to a request that is about to leave go to its capture.
func (in *inbox) await(id jsonrpc.ID, c *capture) {
	in.mu.Lock()
	in.waiting[id] = c
	in.mu.Unlock()
	c.sending(id)
}

// done returns what was seen of a request, whose answer nobody waits for any more.
func (in *inbox) done(c *capture) seen {
	known := c.known()
	in.take(known.id)
	return known
}

// take returns the capture that waits for an answer, which then waits no more; nil
// when there is none.
func (in *inbox) take(id jsonrpc.ID) *capture {
	in.mu.Lock()
	defer in.mu.Unlock()
	c := in.waiting[id]
	delete(in.waiting, id)
	return c
}

// accept takes a message and returns what the SDK gets in its place; nil for
// nothing. size is that of the message in bytes, counted how many of them there has
// been room for already.
func (in *inbox) accept(msg jsonrpc.Message, size, counted int64) jsonrpc.Message {
	in.heard()
	switch msg := msg.(type) {
	case *jsonrpc.Request:
		if !in.wanted(msg) {
			return nil
		}
		return slimmed(msg)
	case *jsonrpc.Response:
		c := in.take(msg.ID)
		switch {
		case c != nil && backend.Fits(c.memory, counted, size):
			return c.settleResponse(msg, size)
		case c != nil:
			c.settle(answer{outcome: tooLarge, size: size})
			return stub(msg.ID)
		case size > largeAnswer: // of the handshake
			return oversized(msg.ID, size)
		}
	}
	return msg
}

// giant takes a message that is too long to be read, as far as it was, and returns
// what the SDK gets in its place; nil when it answers nothing.
func (in *inbox) giant(text, tail []byte, size int64) jsonrpc.Message {
	id, ok := identify(text, tail)
	if !ok {
		return nil
	}
	in.heard()
	c := in.take(id)
	if c == nil {
		return oversized(id, size)
	}
	c.settle(answer{outcome: tooLarge, size: size})
	return stub(id)
}

// wanted reports whether the SDK should see a request or notification of the
// server. Notes of progress are passed on here, so that they come before the
// answer that follows them; the other notifications (log messages, changes of
// prompts and resources) are dropped before they can queue up. Requests are all
// answered, unless there are too many at a time.
func (in *inbox) wanted(r *jsonrpc.Request) bool {
	if r.IsCall() {
		return in.ask()
	}
	switch r.Method {
	case "notifications/progress":
		in.progressed(r.Params)
		return false
	case "notifications/message":
		if caller := in.only(); caller != nil {
			caller.Said(r.Method, r.Params)
		}
		return false
	case "notifications/resources/updated", "notifications/resources/list_changed", "notifications/prompts/list_changed":
		if in.hear != nil && len(r.Params) <= maxNote {
			in.hear(r.Method, r.Params)
		}
		return false
	case "notifications/tools/list_changed":
		return in.change()
	case "notifications/cancelled", "notifications/subscriptions/acknowledged":
		return true
	}
	return false
}

// underWay notes a call and its caller, until the returned function is called.
func (in *inbox) underWay(h *hearing, caller backend.Caller) (over func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.callers[h] = caller
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(in.callers, h)
	}
}

// linger notes that a call was given up whose answer has not come.
func (in *inbox) linger() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.lingers = time.Now().Add(lingering)
}

// only is the caller of the only call that is under way; nil where there is another, or was one that
// was given up, since a server does not say of which it speaks, and one caller is to hear nothing of
// another's.
func (in *inbox) only() (caller backend.Caller) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.callers) != 1 || time.Now().Before(in.lingers) {
		return nil
	}
	for _, caller = range in.callers {
		break
	}
	return caller
}

// heard notes a sign of life.
func (in *inbox) heard() { in.lastHeard.Store(time.Now().UnixNano()) }

func (in *inbox) silence() time.Duration {
	return time.Since(time.Unix(0, in.lastHeard.Load()))
}

// expire notes that the server does not know the session.
func (in *inbox) expire() { in.expireOnce.Do(func() { close(in.expired) }) }

// notify puts one signal into a channel that holds one.
func notify(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// watch has notes of progress with the token told to f until the returned
// function is called.
func (in *inbox) watch(token string, f func(backend.Sign)) (stop func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.progress[token] = f
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(in.progress, token)
	}
}

// progressed takes the parameters of a note of progress.
func (in *inbox) progressed(params json.RawMessage) {
	var p mcp.ProgressNotificationParams
	if json.Unmarshal(params, &p) != nil {
		return
	}
	token, ok := p.ProgressToken.(string)
	if !ok {
		return // ours are strings
	}
	in.mu.Lock()
	f := in.progress[token]
	in.mu.Unlock()
	if f != nil {
		f(backend.Sign{Note: progressNote(p), Done: p.Progress, Total: p.Total})
	}
}

// maxProgress bounds a note of progress, in bytes.
const maxProgress = 1 << 10

// progressNote is the message of the server, else how far it has come.
func progressNote(p mcp.ProgressNotificationParams) string {
	if p.Message != "" {
		return begun(p.Message, maxProgress)
	}
	note := strconv.FormatFloat(p.Progress, 'f', -1, 64)
	if p.Total > 0 {
		note += "/" + strconv.FormatFloat(p.Total, 'f', -1, 64)
	}
	return note
}
