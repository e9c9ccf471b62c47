package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
)

// command is one command on its way: of a step, or any other one.
type command struct {
	// key is the key whose slot decides where the command goes.
	key    string
	script *script // nil for a plain command
	words  []any
	weight int
	// step is what is decided anew for each time that it is sent; nil for a command whose
	// words are given.
	step   step
	rows   rows
	failed error // of the step, by what may not be true
	tried  int   // how often it was decided
	load   bool  // the server does not know the script yet
	hinted bool  // it was sent, and has changed nothing but marks
	ofCall bool  // it counts as a round trip of a call

	taken atomic.Bool   // by a flusher, or by its caller, which withdraws it
	done  chan struct{} // closed when the rest is final
	over  bool
	reply any
	logs  []*redis.StringCmd
	err   error
	// replicated says that enough replicas have what the command wrote.
	replicated bool
}

// step is a dedupe.Step, or one of this store's own.
type step interface{ Apply(rows dedupe.Rows) error }

// decide makes the words of a step, by what is known of its rows. It returns false when
// there is nothing to send, and the command is finished.
func (c *command) decide(l *lane) bool {
	if c.step == nil {
		return true
	}
	if c.tried++; c.tried > mostDecisions {
		c.finish(errors.New("redis: the rows of the call are changed all the time"))
		return false
	}
	r := &c.rows
	r.lane = l
	r.read, r.writes = r.readRoom[:0], r.writeRoom[:0]
	r.others, r.logs, r.done, r.into, r.beside = r.others[:0], r.logs[:0], r.done[:0], nil, nil
	if r.now = l.clock.now(); !r.saidAt.IsZero() {
		r.now = r.saidAt // of what was said then
	}
	r.now = r.now.In(ofStep)
	if c.failed = c.step.Apply(r); c.failed != nil {
		r.writes = r.writes[:0]
		c.forget(l)
	}
	if r.sure() && (len(r.writes) == 0 || c.hinted) {
		r.tell()
		c.finish(c.failed)
		return false
	}
	c.script, c.words = stepScript, r.words(stepScript)
	if c.load {
		c.words = c.script.withSource(c.words)
	}
	return true
}

// forget forgets what was believed of the rows of a step.
func (c *command) forget(l *lane) {
	for _, read := range c.rows.read {
		l.forget(read.key)
	}
}

// hear takes the reply, which finishes the command unless it is to be sent again.
func (c *command) hear(l *lane) {
	switch {
	case c.err != nil && c.script != nil && !c.load && redis.HasErrorPrefix(c.err, "NOSCRIPT"):
		c.load, c.words = true, c.script.withSource(c.words)
		c.forget(l)
	case c.err != nil:
		c.forget(l)
		c.finish(c.err)
	case c.step == nil:
		c.finish(nil)
	default:
		c.hearStep(l)
	}
}

// hearStep takes the reply of step.lua.
func (c *command) hearStep(l *lane) {
	r := &c.rows
	r.saidLogs = r.saidLogs[:0]
	for i, text := range c.logs {
		r.saidLogs = append(r.saidLogs, log{r.logs[i], text.Val()})
	}
	switch reply := c.reply.(type) {
	case int64:
		at := dedupe.Instant(reply)
		l.clock.heard(at)
		if !r.changes() {
			// What it read is true, but of a later time: it is decided by that.
			r.said, r.saidAt, c.hinted = append(r.said[:0], r.read...), at, true
			return
		}
		for _, done := range r.done {
			done(at)
		}
		r.tell()
		c.finish(nil)
	case []any:
		if err := r.correct(reply); err != nil {
			c.forget(l)
			c.finish(err)
		}
	default:
		c.forget(l)
		c.finish(unexpected(c.reply))
	}
}

// correct takes what the server has said of rows.
func (r *rows) correct(reply []any) error {
	if len(reply) != 1+len(r.read) {
		return unexpected(reply)
	}
	now, ok := reply[0].(int64)
	if !ok {
		return unexpected(reply)
	}
	r.saidAt = dedupe.Instant(now)
	r.lane.clock.heard(r.saidAt)
	r.said = r.said[:0]
	for i, read := range r.read {
		switch text := reply[1+i].(type) {
		case nil: // as it was believed to be
		case string:
			read.text, read.record = text, nil
		default:
			return unexpected(text)
		}
		r.said = append(r.said, read)
		r.lane.expect(read)
	}
	return nil
}

// readLogs asks for the logs of a step, behind it.
func (c *command) readLogs(ctx context.Context, pipe redis.Pipeliner, asking bool) (logs []*redis.StringCmd) {
	for _, key := range c.rows.logs {
		if asking {
			_ = pipe.Process(ctx, redis.NewCmd(ctx, "asking")) // only queues
		}
		logs = append(logs, pipe.Get(ctx, key))
	}
	return logs
}

// finish answers whoever waits for the command.
func (c *command) finish(err error) {
	c.err, c.over = err, true
	close(c.done)
}

func (c *command) answered() bool { return c.over }

// writes reports that what the command does may have to be replicated.
func (c *command) writes() bool { return c.step == nil || len(c.rows.writes) > 0 }

func unexpected(reply any) error {
	return fmt.Errorf("redis answered with an unexpected %T", reply)
}
