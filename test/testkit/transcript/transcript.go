// Package transcript keeps what processes and loggers print while a test reads
// it.
package transcript

import (
	"strings"
	"sync"
)

// Transcript is what was printed so far. The zero value is empty; any number of
// goroutines may write and read.
type Transcript struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer; it never fails.
func (t *Transcript) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(text)
}

// String returns what was printed since the start or the last Take.
func (t *Transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Take returns what String does, and forgets it.
func (t *Transcript) Take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.text.Reset()
	return t.text.String()
}
