package process

import (
	"bytes"
	"sync"
)

// Tail is a writer that keeps the last bytes written to it. It is safe for
// concurrent use and never fails.
type Tail struct {
	mu    sync.Mutex
	buf   []byte
	limit int
	total int64
}

// NewTail returns a Tail that keeps the last limit bytes.
func NewTail(limit int) *Tail { return &Tail{limit: limit} }

// Write keeps the end of p.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += int64(len(p))
	t.buf = append(t.buf, p[max(0, len(p)-t.limit):]...)
	// Twice the limit before moving anything, so that a program that writes
	// one byte at a time does not cost one move per byte.
	if len(t.buf) > 2*t.limit {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.limit:]...)
	}
	return len(p), nil
}

// String returns what was kept, after "…" when that is not all.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.buf
	if len(kept) > t.limit {
		kept = kept[len(kept)-t.limit:]
	}
	return ending(kept, t.total > int64(len(kept)))
}

// ending is a text whose beginning may have been cut off. It begins with a whole word then, where there is one: half
// a secret would be known by nobody who takes secrets out.
func ending(text []byte, cut bool) string {
	if !cut {
		return string(text)
	}
	if at := bytes.IndexAny(text, " \t\r\n"); at >= 0 && len(bytes.TrimSpace(text[at:])) > 0 {
		text = text[at+1:]
	}
	return "…" + string(text)
}
