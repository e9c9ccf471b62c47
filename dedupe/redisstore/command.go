package redisstore

import "sync/atomic"

// command is one command on its way.
type command struct {
	words  []any
	script *script // nil for a plain command
	weight int

	taken atomic.Bool   // by a flusher, or by its caller, which withdraws it
	done  chan struct{} // closed when the rest is final
	reply any
	err   error
	// replicated says that enough replicas have what the command wrote.
	replicated bool
}

// writes reports that what the command does may have to be replicated.
func (c *command) writes() bool { return c.script != lookupScript }

// key is the key whose slot decides where the command goes.
func (c *command) key() string {
	at := 1
	if c.words[0] != "set" { // eval and evalsha: script, number of keys, keys
		at = 3
	}
	key, _ := c.words[at].(string)
	return key
}
