package redisstore

import (
	_ "embed"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
)

var (
	//go:embed step.lua
	scriptSource string
	scriptHash   = redis.NewScript(scriptSource).Hash()
)

// mostDecisions bounds how often a step is decided. It is decided again when another
// process has changed a row in between: one of them always succeeds.
const mostDecisions = 100

// step is a dedupe.Step, or one of this store's own.
type step interface {
	Apply(rows dedupe.Rows) error
	Binds() bool
}

// unbound is of a step whose answer waits for no replica.
type unbound struct{}

func (unbound) Binds() bool { return false }

// command is a step on its way. It belongs to its caller until it is in a lane, and again
// when it is done.
type command struct {
	// key is the key whose slot decides where the command goes.
	key    string
	step   step
	weight int

	rows   rows
	failed error // of the step, by what may not be true
	tried  int   // how often it was decided
	load   bool  // the server does not know the script yet
	hinted bool  // it was sent, and has changed nothing but marks

	words []any
	sent  *redis.Cmd
	reply any
	err   error
	// replicated says that enough replicas have what the command wrote.
	replicated bool
	done       chan struct{} // gets a value when the rest is final
}

// commands are those that were used before, with what they have room for.
var commands = sync.Pool{New: func() any { return &command{done: make(chan struct{}, 1)} }}

// mostRoom bounds the bytes of texts that an unused command keeps room for.
const mostRoom = 16 << 10

func newCommand(key string, step step, weight int) *command {
	c, _ := commands.Get().(*command)
	c.key, c.step, c.weight = key, step, weight
	return c
}

// free keeps a command that is in no lane for another step.
func (c *command) free() {
	r := &c.rows
	clear(c.words)
	clear(r.said)
	clear(r.read)
	clear(r.others)
	clear(r.writes)
	if cap(r.room) > mostRoom {
		r.room = nil
	}
	*c = command{done: c.done, words: c.words[:0], rows: rows{
		said: r.said[:0], read: r.read[:0], others: r.others[:0], writes: r.writes[:0], plan: r.plan, room: r.room, scratch: r.scratch,
	}}
	commands.Put(c)
}

// decide decides a step by what is known of its rows. It returns false when there is
// nothing to send, and the command is finished.
func (c *command) decide(l *lane) bool {
	if c.tried++; c.tried > mostDecisions {
		return !c.finish(errors.New("redis: the rows of the call are changed all the time"))
	}
	r := &c.rows
	r.begin(l)
	if c.failed = c.step.Apply(r); c.failed != nil {
		r.writes, r.heard = r.writes[:0], nil
		r.forget()
	}
	if r.sure() && (len(r.writes) == 0 || c.hinted) {
		r.end(r.saidAt, r.told)
		return !c.finish(c.failed)
	}
	return true
}

// call makes the words of the command: those of a server that does not know the script,
// which gets its source, or those of one that does.
func (c *command) call() []any {
	c.words = append(c.words[:0], "evalsha", &scriptHash)
	if c.load {
		c.words[0], c.words[1] = "eval", &scriptSource
	}
	c.words = c.rows.words(c.words)
	return c.words
}

// hear takes the reply, which finishes the command unless it is to be sent again.
func (c *command) hear(l *lane) (answered bool) {
	r := &c.rows
	if c.err != nil {
		r.forget()
		if c.load || !redis.HasErrorPrefix(c.err, "NOSCRIPT") {
			return c.finish(c.err)
		}
		c.load = true
		return false
	}
	ms, texts, done, err := answer(c.reply)
	at := dedupe.Instant(ms)
	if err == nil {
		l.server.clock.heard(at)
		if done {
			err = r.hear(texts)
		} else {
			err = r.correct(texts)
		}
	}
	switch {
	case err != nil:
		r.forget()
		return c.finish(err)
	case done && r.changes():
		r.end(at, r.told)
		return c.finish(nil)
	case done: // what it read is true, but of a later time: it is decided by that
		r.said, c.hinted = append(r.said[:0], r.read...), true
	}
	r.saidAt = at
	return false
}

// finish answers whoever waits for the command, who may use it for something else then.
func (c *command) finish(err error) bool {
	c.err = err
	c.done <- struct{}{}
	return true
}

// answer reads what step.lua returns: the time, whether the step was done, and then what
// is told, or else each row that is another.
func answer(reply any) (at int64, texts []any, done bool, err error) {
	if at, done = reply.(int64); done {
		return at, nil, true, nil
	}
	words, _ := reply.([]any)
	if len(words) > 0 {
		if at, known := words[0].(int64); known {
			if len(words) == 2 {
				texts, _ = words[1].([]any)
			}
			if done = len(texts) > 0; !done {
				texts = words[1:]
			}
			return at, texts, done, nil
		}
	}
	return 0, nil, false, unexpected(reply)
}

// hear takes what the server has told of the keys that were asked for.
func (r *rows) hear(texts []any) error {
	least, more := 0, false
	for _, w := range r.writes {
		more = more || w.what == 'M'
		if w.what == 'g' {
			least++
		}
	}
	if len(texts) < least || len(texts) > least && !more {
		return unexpected(texts)
	}
	r.told, r.asked = r.told[:0], nil
	for _, told := range texts {
		body, ok := told.(string)
		if !ok {
			return unexpected(told)
		}
		r.told = append(r.told, body)
	}
	if !r.changes() { // it is decided again
		r.asked = r.asks()
	}
	return nil
}

// correct takes what the server has said of rows.
func (r *rows) correct(texts []any) error {
	if len(texts) != len(r.read) {
		return unexpected(texts)
	}
	r.said, r.told, r.asked = r.said[:0], r.told[:0], nil
	for i, read := range r.read {
		switch body := texts[i].(type) {
		case nil: // as it was believed to be
		case string:
			read.text, read.record = body, nil
		default:
			return unexpected(body)
		}
		r.said = append(r.said, read)
		r.lane.expect(read)
	}
	return nil
}

func unexpected(reply any) error {
	return fmt.Errorf("redis answered with an unexpected %T", reply)
}
