package telemetry

import (
	"errors"
	"io"
	"sync"
)

// maxPending bounds the log text that waits to be written, in bytes. Beyond it
// whoever logs waits for the writer, so a slow reader of the log slows calls
// down rather than losing lines.
const maxPending = 1 << 20

// Lines is a writer for log lines that takes the write off the path of the
// call. What is logged while a write is under way goes out with the next one,
// so under load many lines cost one write, and alone a line goes out at once.
type Lines struct {
	out io.Writer

	mu      sync.Mutex
	room    sync.Cond // pending has become smaller, or the writer has ended
	pending []byte
	closed  bool
	err     error

	wake chan struct{}
	done chan struct{}
}

// NewLines returns a writer on out. Close ends it.
func NewLines(out io.Writer) *Lines {
	l := &Lines{out: out, wake: make(chan struct{}, 1), done: make(chan struct{})}
	l.room.L = &l.mu
	go l.run()
	return l
}

// errLinesClosed is returned by Write after Close.
var errLinesClosed = errors.New("the log is closed")

// Write takes whole lines. It returns the error of an earlier write, if there
// was one.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	for len(l.pending) > maxPending && !l.closed {
		l.room.Wait()
	}
	if l.closed {
		l.mu.Unlock()
		return 0, errLinesClosed
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
	for range l.wake {
		l.mu.Lock()
		writing, l.pending = l.pending, writing[:0]
		l.room.Broadcast()
		l.mu.Unlock()
		l.write(writing)
	}
	l.write(l.pending)
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

// Close writes what is pending and ends the writer. It returns the last error
// of a write.
func (l *Lines) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		<-l.done
		return l.err
	}
	l.closed = true
	close(l.wake)
	l.room.Broadcast()
	l.mu.Unlock()
	<-l.done
	return l.err
}
