package telemetry

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// maxPending bounds the log text that waits to be written, in bytes. Beyond it
// whoever logs waits for the writer, so a slow reader of the log slows calls
// down rather than losing lines.
const maxPending = 1 << 20

// What is a slow reader for a while is none after that: calls are not held for a log
// that nobody reads, and the process ends without it.
const (
	maxStill    = 5 * time.Second // of one write
	maxLastWord = 2 * time.Second // of Close
)

// Lines is a writer for log lines that takes the write off the path of the
// call. What is logged while a write is under way goes out with the next one,
// so under load many lines cost one write, and alone a line goes out at once.
type Lines struct {
	out io.Writer

	mu      sync.Mutex
	drained sync.Cond // pending has become smaller, or the writer has ended
	pending []byte
	closed  bool
	err     error
	busy    bool // a write is under way
	still   bool // it has taken maxStill
	lost    int  // lines since then

	wake chan struct{}
	done chan struct{}
}

// NewLines returns a writer on out. Close ends it.
func NewLines(out io.Writer) *Lines {
	l := &Lines{out: out, wake: make(chan struct{}, 1), done: make(chan struct{})}
	l.drained.L = &l.mu
	go l.run()
	return l
}

// errLinesClosed is returned by Write after Close.
var errLinesClosed = errors.New("the log is closed")

// errUnread is returned for lines of which nobody reads those before.
var errUnread = errors.New("nobody reads the log")

// Write takes whole lines. It returns the error of an earlier write, if there
// was one.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	for len(l.pending) > maxPending && !l.closed && !l.still {
		l.drained.Wait()
	}
	if l.closed {
		l.mu.Unlock()
		return 0, errLinesClosed
	}
	if len(l.pending) > maxPending {
		l.lost++
		l.mu.Unlock()
		return 0, errUnread
	}
	l.pending = append(l.pending, p...)
	err := l.err
	select { // under the lock, so that Close cannot come between
	case l.wake <- struct{}{}:
	default: // the writer is awake
	}
	l.mu.Unlock()
	return len(p), err
}

// run is the writer; Close ends it.
func (l *Lines) run() {
	defer close(l.done)
	var writing []byte
	slow := time.AfterFunc(time.Hour, l.standStill)
	slow.Stop()
	defer slow.Stop()
	for range l.wake {
		l.mu.Lock()
		writing, l.pending, l.busy = l.pending, writing[:0], true
		l.drained.Broadcast()
		l.mu.Unlock()
		slow.Reset(maxStill)
		l.write(writing)
		slow.Stop()
		l.written()
	}
	l.write(l.pending)
}

// standStill says that a write does not end, so that nobody waits for it.
func (l *Lines) standStill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.still = l.busy
	l.drained.Broadcast()
}

// written ends a write, and tells of what was lost while it did not end.
func (l *Lines) written() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy, l.still = false, false
	if l.lost > 0 && !l.closed {
		l.pending = fmt.Appendf(l.pending, `{"time":%q,"level":"ERROR","msg":"log lines were lost: nobody read the log","lines":%d}`+"\n",
			time.Now().Format(time.RFC3339Nano), l.lost)
		l.lost = 0
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

func (l *Lines) write(text []byte) {
	if len(text) == 0 {
		return
	}
	if _, err := l.out.Write(text); err != nil {
		l.mu.Lock()
		l.err = err
		l.mu.Unlock()
	}
}

// Close writes what is pending and ends the writer, unless nobody reads it: then the
// writer is left behind. It returns the last error of a write.
func (l *Lines) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.wake)
		l.drained.Broadcast()
	}
	l.mu.Unlock()
	last := time.NewTimer(maxLastWord)
	defer last.Stop()
	select {
	case <-l.done:
		return l.err
	case <-last.C:
		return errUnread
	}
}
