// Package redisfault proves what becomes of calls when the network between a
// sidecar and its Redis, or between Redis servers, or between a sidecar and its
// upstream, fails at the worst moments. The proofs are tests with the build tag
// prove; what they share is here.
package redisfault

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"strconv"

	"github.com/sidecall/sidecall/dedupe"
)

// wire follows one connection to a Redis server: which command each reply
// answers. It knows RESP2 as clients and servers speak it; a connection on which
// the server also speaks by itself (SUBSCRIBE, PSYNC) is not followed rightly,
// and never mistaken for one that runs scripts.
type wire struct {
	requests, replies []byte // what is not whole yet
	asked             []command
}

// command is a command on its way: its name, and of one that runs the step of a store
// the first record that it writes: under which key, in which state.
type command struct {
	name, key string
	writes    dedupe.State
}

// answer is the whole reply to a command.
type answer struct {
	command

	// begin is where it begins in the chunk that ended it; below 0 when it began
	// in an earlier one.
	begin int
	// head is its first bytes, at most headLength.
	head string
}

// headLength is enough to tell what a script was answered: see done.
const headLength = 24

// done is the reply of a step that was done: the time, alone or before what is told.
var done = regexp.MustCompile(`^(:|\*2\r\n:\d+\r\n\*)`)

// asks takes a chunk of what the client says.
func (w *wire) asks(chunk []byte) {
	w.requests = append(w.requests, chunk...)
	for {
		size := elementSize(w.requests)
		if size == 0 {
			return
		}
		w.asked = append(w.asked, parseCommand(w.requests[:size]))
		w.requests = w.requests[size:]
	}
}

// answers takes a chunk of what the server says, and returns what it ends.
func (w *wire) answers(chunk []byte) []answer {
	var ended []answer
	begin := -len(w.replies)
	w.replies = append(w.replies, chunk...)
	for {
		if len(w.asked) == 0 {
			w.replies = nil // the server speaks by itself
			return ended
		}
		size := elementSize(w.replies)
		if size == 0 {
			return ended
		}
		ended = append(ended, answer{command: w.asked[0], begin: begin, head: string(w.replies[:min(size, headLength)])})
		w.asked, w.replies = w.asked[1:], w.replies[size:]
		begin += size
	}
}

// parseCommand reads what is needed of a command here.
func parseCommand(element []byte) command {
	all := words(element)
	if len(all) == 0 {
		return command{}
	}
	c := command{name: string(bytes.ToLower(all[0]))}
	if c.name == "evalsha" {
		c.key, c.writes = stepWrites(all)
	}
	return c
}

// words are the words of a command, up to what is none.
func words(element []byte) (all [][]byte) {
	_, rest := line(element) // the number of words
	for {
		head, after := line(rest)
		if len(head) == 0 || head[0] != '$' {
			return all
		}
		n, err := strconv.Atoi(string(head[1:]))
		if err != nil || n < 0 || len(after) < n+2 {
			return all
		}
		all, rest = append(all, after[:n]), after[n+2:]
	}
}

// The plan of a step (internal/store/redisstore/step.lua): an instant, the number of rows that
// it has read, and then what it writes, each with a letter, which is large where it has a
// text, the number of a key and an amount, in digits behind how many there are.
const (
	planHead  = 8 + 2
	planWrite = 1 + 2 + 1 // without the digits
)

// stepWrites returns the first record among what a step writes; an Absent one when there
// is none. What a record is, its seal tells.
func stepWrites(call [][]byte) (key string, state dedupe.State) {
	if len(call) < 3 {
		return "", dedupe.Absent
	}
	n, err := strconv.Atoi(string(call[2]))
	if err != nil || n < 0 || len(call) < 3+n+1 {
		return "", dedupe.Absent
	}
	keys, plan, rest := call[3:3+n], call[3+n], call[3+n+1:]
	if len(plan) < planHead {
		return "", dedupe.Absent
	}
	read := int(binary.BigEndian.Uint16(plan[8:]))
	if len(rest) < read {
		return "", dedupe.Absent
	}
	texts := rest[read:]
	for at := planHead; at < len(plan); at += planWrite + int(plan[at+3]) {
		if at+planWrite > len(plan) {
			return "", dedupe.Absent
		}
		what, number := plan[at], int(binary.BigEndian.Uint16(plan[at+1:]))
		if what >= 'a' {
			continue // it has no text
		}
		if len(texts) == 0 || number < 1 || number > len(keys) {
			return "", dedupe.Absent
		}
		if record, err := dedupe.DecodeSealed(texts[0]); what == 'T' && err == nil {
			return string(keys[number-1]), record.State
		}
		texts = texts[1:]
	}
	return "", dedupe.Absent
}

// elementSize is how many bytes the first element takes; 0 when it is not whole.
func elementSize(b []byte) int {
	head, rest := line(b)
	if head == nil {
		return 0
	}
	size := len(b) - len(rest)
	if len(head) == 0 || head[0] != '$' && head[0] != '*' {
		return size // a simple string, an error, a number
	}
	n, err := strconv.Atoi(string(head[1:]))
	if err != nil || n < 0 {
		return size // null
	}
	if head[0] == '$' {
		if len(rest) < n+2 {
			return 0
		}
		return size + n + 2
	}
	for range n {
		inner := elementSize(b[size:])
		if inner == 0 {
			return 0
		}
		size += inner
	}
	return size
}

// line splits off the first line, without its end; nil when it is not whole.
func line(b []byte) (first, rest []byte) {
	first, rest, whole := bytes.Cut(b, []byte("\r\n"))
	if !whole {
		return nil, b
	}
	return first, rest
}
