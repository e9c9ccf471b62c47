package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"sync"
)

// Ledger records executions: in memory, and in an append-only file when it has
// one. What Write has returned from is on disk.
type Ledger struct {
	mu     sync.Mutex
	counts map[string]int
	total  int
	file   *os.File // nil without one
	// changed is closed, and replaced, at every execution.
	changed chan struct{}
}

// NewLedger returns a ledger that is kept in memory only.
func NewLedger() *Ledger {
	return &Ledger{counts: make(map[string]int), changed: make(chan struct{})}
}

// OpenLedger returns a ledger that is kept in a file too. What is in the file
// already counts. A last line that was being written when its process died is
// not an execution that anybody was told of; it is cut off.
func OpenLedger(path string) (*Ledger, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	l := NewLedger()
	l.file = file
	if err := l.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("ledger %s: %w", path, err), file.Close())
	}
	return l, nil
}

func (l *Ledger) load() error {
	var whole int64
	for lines := bufio.NewReader(l.file); ; {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return l.file.Truncate(whole)
		}
		if err != nil {
			return err
		}
		key, err := strconv.Unquote(line[:len(line)-1])
		if err != nil {
			return fmt.Errorf("line %d is not a key: %w", l.total+1, err)
		}
		whole += int64(len(line))
		l.counts[key]++
		l.total++
	}
}

// Write records one execution.
func (l *Ledger) Write(key string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		if _, err := l.file.WriteString(strconv.Quote(key) + "\n"); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
		if err := l.file.Sync(); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
	}
	l.counts[key]++
	l.total++
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// Await returns when a key was executed at least n times, or with the error of
// ctx.
func (l *Ledger) Await(ctx context.Context, key string, n int) error {
	for {
		l.mu.Lock()
		count, changed := l.counts[key], l.changed
		l.mu.Unlock()
		if count >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("ledger: %s was executed %d times, not %d: %w", key, count, n, ctx.Err())
		}
	}
}

// Executions is how often a key was executed.
func (l *Ledger) Executions(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[key]
}

// Total is how many executions there were.
func (l *Ledger) Total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// Counts is how often each key was executed.
func (l *Ledger) Counts() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.counts)
}

// Close closes the file.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	file := l.file
	l.file = nil
	if err := file.Close(); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}
