package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
)

var (
	//go:embed step.lua
	scriptSource string
	scriptHash   = redis.NewScript(scriptSource).Hash()
)

const (
	// mostDecisions bounds how often a step is decided. It is decided again when another
	// process has changed a row in between: one of them always succeeds.
	mostDecisions = 100
	// mostScratch bounds the bytes of texts that an unused command keeps room for.
	mostScratch = 16 << 10
)

// own is a step that is this store's own, of no call.
func own(bytes int, apply func(*rows)) *dedupe.Step {
	return &dedupe.Step{Bytes: bytes, Apply: func(of dedupe.Rows) { apply(of.(*rows)) }}
}

// command is a step on its way. It is its caller's when it is done.
type command struct {
	ctx  context.Context // of its caller, who leaves it when that ends
	key  string          // whose slot decides where the command goes
	step *dedupe.Step

	rows  rows
	tried int  // how often it was decided
	load  bool // the server does not know the script yet

	words      []any
	sent       *redis.Cmd
	reply      any
	err        error
	to         redirection   // that has to be followed; empty when there is none
	replicated bool          // enough replicas have what it wrote
	done       chan struct{} // gets a value when the rest is final
}

// commands are those that were used before, with what they have room for.
var commands = sync.Pool{New: func() any { return &command{done: make(chan struct{}, 1)} }}

func newCommand(ctx context.Context, key string, step *dedupe.Step) *command {
	c, _ := commands.Get().(*command)
	c.ctx, c.key, c.step = ctx, key, step
	return c
}

// free keeps a command that is done for another step.
func (c *command) free() {
	r := &c.rows
	clear(c.words)
	clear(r.said)
	clear(r.told)
	clear(r.read)
	clear(r.others)
	clear(r.writes)
	if cap(r.scratch) > mostScratch {
		r.scratch = nil
	}
	*c = command{done: c.done, words: c.words[:0], rows: rows{
		said: r.said[:0], read: r.read[:0], plan: r.plan, did: r.did[:0], told: r.told[:0],
		draft: draft{others: r.others[:0], writes: r.writes[:0], scratch: r.scratch},
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
	r.Fail(dedupe.Survive(func() error {
		c.step.Apply(r)
		return nil
	}))
	if r.failed != nil {
		r.writes, r.gets, r.heard = r.writes[:0], 0, nil
		r.forget()
	}
	r.compose()
	if r.sure() {
		r.end(r.saidAt, r.told)
		return !c.finish(r.failed)
	}
	return true
}

// call makes the words of the command. A server that does not know the script gets its source.
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
		c.load, r.saidAt = true, time.Time{}
		return false
	}
	at, done, err := r.hear(c.reply)
	if err != nil {
		r.forget()
		return c.finish(err)
	}
	l.clock.heard(at)
	switch {
	case done && r.changes():
		r.end(at, r.told)
		return c.finish(nil)
	case done: // what it read is true, but of a later time: it is decided by that
		r.did = append(r.did, r.plan[planHead:]...)
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

// hear takes a reply of step.lua: when the step was done, and what is told of the keys that
// were asked for; or, if it was not done, each row that is another than was believed.
func (r *rows) hear(reply any) (at time.Time, done bool, err error) {
	words, several := reply.([]any)
	if !several || len(words) == 0 {
		words = []any{reply}
	}
	ms, known := words[0].(int64)
	texts := words[1:]
	if done = !several; len(texts) == 1 {
		if told, some := texts[0].([]any); some && len(told) > 0 {
			texts, done = told, true
		}
	}
	strange := func(word any) bool { _, is := word.(string); return !is && (done || word != nil) }
	if !known || done && len(texts) < r.gets || !done && len(texts) != len(r.read) || slices.ContainsFunc(texts, strange) {
		return at, false, fmt.Errorf("redis answered with an unexpected %T", reply)
	}
	r.told, r.did = r.told[:0], r.did[:0]
	for i, word := range texts {
		body, some := word.(string)
		if done {
			r.told = append(r.told, body)
			continue
		}
		read := &r.read[i]
		if some {
			read.text, read.record = body, nil
		}
		r.lane.expect(*read)
	}
	return dedupe.Instant(ms), done, nil
}
