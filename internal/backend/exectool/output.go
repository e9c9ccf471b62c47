package exectool

import (
	"bytes"
	"net/http"
	"strings"
	"sync"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// output keeps the first limit bytes written to it, counts the rest, and never
// fails, so that the command that writes is never disturbed.
type output struct {
	limit  int64
	memory backend.Memory
	// full, when not nil, is called once there is more than limit.
	full func()

	mu    sync.Mutex
	buf   bytes.Buffer
	total int64
	taken int64 // room
}

// Write keeps what fits of p.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	before := o.total
	o.total += int64(len(p))
	if kept := min(o.total, o.limit); kept > before && !o.grow(kept) {
		o.limit = before // the rest is thrown away
	}
	if left := o.limit - before; left > 0 {
		o.buf.Write(p[:min(left, int64(len(p)))])
	}
	overflowed := before <= o.limit && o.total > o.limit
	o.mu.Unlock()
	if overflowed && o.full != nil {
		o.full()
	}
	return len(p), nil
}

// grow sees to it that there is room for so many bytes. It takes twice of what
// there was, as the buffer does. The caller holds mu.
func (o *output) grow(kept int64) bool {
	if kept <= o.taken || kept <= backend.Uncounted {
		return true
	}
	size := min(max(kept, 2*o.taken), o.limit)
	if !backend.Fits(o.memory, o.taken, size) {
		return false
	}
	o.taken = size
	return true
}

// snapshot returns a copy of what was kept so far.
func (o *output) snapshot() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.buf.Bytes())
}

// reply describes what was kept. Nothing may be written any more.
func (o *output) reply() tool.Reply {
	o.mu.Lock()
	defer o.mu.Unlock()
	reply := tool.Reply{Size: o.total, Cut: o.total > o.limit}
	text := o.buf.Bytes()
	if media, binary := binaryType(text); binary {
		reply.Binary = media
		return reply
	}
	reply.Text = text
	reply.JSON = !reply.Cut && backend.EvidentJSON(text)
	return reply
}

// sniffLen is how much of an output is looked at for NUL bytes: as much as git
// looks at.
const sniffLen = 8000

// binaryType tells binary output from text, and its media type. Text in an old
// encoding, with colours or with stray control characters is still text; what
// has a NUL byte near its start or a known binary signature is not.
func binaryType(data []byte) (media string, binary bool) {
	if len(data) == 0 {
		return "", false
	}
	media, _, _ = strings.Cut(http.DetectContentType(data), ";")
	switch {
	case strings.HasPrefix(media, "text/"):
		// UTF-16 with a byte order mark is detected as text and has NULs.
		return "", false
	case media == "application/octet-stream":
		return media, bytes.IndexByte(data[:min(len(data), sniffLen)], 0) >= 0
	case media == "application/postscript":
		return "", false
	default:
		return media, true
	}
}
