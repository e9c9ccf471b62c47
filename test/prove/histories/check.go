package histories

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// History is what was asked of a store about a few keys that nobody else
// touched, and heard from it.
type History struct {
	Name string
	// Keys is the number of keys, Operations all of them in any order.
	Keys       int
	Operations []Operation
	// Offset is what the wall clock is ahead of CLOCK_MONOTONIC.
	Offset time.Duration
	// Behind is how far what the store judges a lease by may be behind its clock: a reading of
	// a clock elsewhere is as old as it was long on its way. It is never ahead.
	Behind time.Duration
	// Limit bounds the search for an order, per key. Default five minutes, which is
	// far beyond what any of the proof's histories takes.
	Limit time.Duration
}

// Check returns nil when the history is one that the table allows. Otherwise,
// and when the search was not over in time, the error says so, and holds the
// path of a picture of it and its text, which are written into dir.
func Check(h History, dir string) error {
	for _, op := range h.Operations {
		if op.Broken {
			return fmt.Errorf("%s: the store broke: %v\n%s", h.Name, &op, h.text(op.Key))
		}
	}
	if h.Limit <= 0 {
		h.Limit = 5 * time.Minute
	}
	for key := range h.Keys {
		operations := h.of(key)
		switch decide(operations, h.Limit) {
		case porcupine.Ok:
		case porcupine.Illegal:
			return h.report(key, operations, dir, "not linearizable")
		case porcupine.Unknown:
			return h.report(key, operations, dir, fmt.Sprintf("not decided within %v", h.Limit))
		default:
			panic("the checker answers something else")
		}
	}
	return nil
}

// of returns what concerns one key, in the form that the checker wants, and last
// an operation of nobody's that comes after everything that was answered.
func (h History) of(key int) []porcupine.Operation {
	last := h.last()
	var all []porcupine.Operation
	add := func(client int, op *Operation) {
		in := timed{op, h.window(op, last)}
		op.behind = int64(h.Behind)
		all = append(all, porcupine.Operation{ClientId: client, Input: in, Call: op.Call, Return: op.Return})
	}
	for i := range h.Operations {
		op := &h.Operations[i]
		if op.Key != key && op.Kind != Reopen || !op.Heard && op.Kind == Lookup {
			continue
		}
		add(op.Client, op)
		for sent := range op.Sends {
			lost := *op
			lost.Heard, lost.Return, lost.Error = false, Never, "sent before, perhaps"
			add(1000+100*op.Client+10*op.Seq+sent, &lost) // a line of its own in the picture
		}
	}
	add(nobody, &Operation{Kind: end, Call: last + 1, Return: last + 1, Heard: true})
	return all
}

// nobody is the client of the end of a history.
const nobody = 999

// last is when the last operation ended that did end. What takes effect later
// is seen by nobody.
func (h History) last() int64 {
	var last int64
	for i := range h.Operations {
		op := &h.Operations[i]
		last = max(last, op.Call)
		if op.Return != Never {
			last = max(last, op.Return)
		}
	}
	return last
}

// window is when the operation may have taken effect, on the wall clock.
func (h History) window(op *Operation, last int64) span {
	w := span{op.Call, min(op.Return, last)}.plus(h.Offset).widened(Slack)
	w.from = w.from / int64(time.Millisecond) * int64(time.Millisecond) // stores count whole ones
	return w
}

// report writes a picture of a history that was refused.
func (h History) report(key int, operations []porcupine.Operation, dir, what string) error {
	// A picture of the whole search takes longer than the search did.
	_, info := porcupine.CheckOperationsVerbose(table(), operations, min(h.Limit, 5*time.Second))
	base := filepath.Join(dir, strings.ReplaceAll(h.Name, " ", "_")+fmt.Sprintf("_key%d", key))
	picture := base + ".html"
	if err := porcupine.VisualizePath(table(), info, picture); err != nil {
		picture = "none: " + err.Error()
	}
	text := h.text(key)
	if err := os.WriteFile(base+".txt", []byte(text), 0o600); err != nil {
		text += "\n" + err.Error()
	}
	return fmt.Errorf("%s, key %d: %s; picture: %s\n%s", h.Name, key, what, picture, text)
}

// text lists the operations on a key in the order of their calls.
func (h History) text(key int) string {
	var mine []*Operation
	for i := range h.Operations {
		if op := &h.Operations[i]; op.Key == key || op.Kind == Reopen {
			mine = append(mine, op)
		}
	}
	slices.SortFunc(mine, func(a, b *Operation) int { return cmp.Compare(a.Call, b.Call) })
	var b strings.Builder
	for _, op := range mine {
		end := "        never"
		if op.Return != Never {
			end = fmt.Sprintf("%13s", brief(op.Return+int64(h.Offset)))
		}
		fmt.Fprintf(&b, "%s %s  client %2d  %v", brief(op.Call+int64(h.Offset)), end, op.Client, op)
		if op.Sends > 0 {
			fmt.Fprintf(&b, "  (sent up to %d times)", op.Sends+1)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
