// Package observed has what is written down of calls that are only observed, by a wrapper or for a
// profile, and what Sidecall would have done of them.
package observed

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// mostBytes bounds the file: what comes when it is full is not written down.
const mostBytes = 256 << 20

// Call is what is written down of a call: nothing of its arguments and of its result but hashes and
// lengths.
type Call struct {
	At     time.Time     `json:"at"`
	Took   time.Duration `json:"took"`
	Server string        `json:"server"`
	Tool   string        `json:"tool"`
	Effect string        `json:"effect"`
	// What the client says of the call; empty where it says nothing.
	ID           string `json:"id,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	Turn         string `json:"turn,omitempty"`
	Prompt       string `json:"prompt,omitempty"`
	// Same is a hash of the tool and its arguments, Result one of what it returned.
	Same   string `json:"same"`
	Result string `json:"result,omitempty"`
	// Ended is OK, Failed, Refused, Lost or Cancelled.
	Ended string `json:"ended"`
	// Chars is how many characters the text of the result has, Shown how many would have been
	// shown at the most.
	Chars int `json:"chars,omitempty"`
	Shown int `json:"shown,omitempty"`
	// Wrong is why it would not have been sent; nil when it would.
	Wrong *Wrong `json:"wrong,omitempty"`
	// Held: a person would have been asked first.
	Held bool `json:"held,omitempty"`
	// Most is how many calls a prompt may have; 0 is no limit.
	Most int64 `json:"most,omitempty"`
	// Untrusted: its result may not lead to a call that is Sensitive.
	Untrusted bool `json:"untrusted,omitempty"`
	Sensitive bool `json:"sensitive,omitempty"`
}

// How a call has ended.
const (
	OK      = "ok"
	Failed  = "failed"  // the tool says so
	Refused = "refused" // the server answers with an error of the protocol
	Lost    = "lost"    // the server has ended before it answered
	// Cancelled: the client did not wait for the answer.
	Cancelled = "cancelled"
)

// Wrong is what a model would have been told of a call, but for the value that it sent.
type Wrong struct {
	Code       string `json:"code"`
	Field      string `json:"field"`
	Constraint string `json:"constraint"`
}

// Digest is a hash of texts, of which nothing can be told but whether two are one.
func Digest(parts ...[]byte) string {
	sum := sha256.New()
	for _, part := range parts {
		sum.Write(part)
		sum.Write([]byte{0})
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

// Log is a file to which several processes add lines.
type Log struct {
	path string
	log  *slog.Logger

	mu     sync.Mutex
	file   *os.File // nil while there is none
	failed bool
}

// To returns what adds lines to a file, which it opens, or makes, for the first of them. That it cannot
// is no matter of the calls: the log is told.
func To(path string, log *slog.Logger) *Log { return &Log{path: path, log: log} }

var errFull = errors.New("the file of what is observed is full: move it away")

// Add writes a call down, in one line and one write, so that those of several processes stay apart.
func (l *Log) Add(c Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.add(c)
	if err != nil {
		_ = l.close() // and opened again for the next one
	}
	if err != nil && !l.failed {
		l.log.Warn("calls that are observed are not written down", "file", l.path, "error", err)
	}
	l.failed = err != nil
}

// mostText bounds each text of a line, in bytes: ids are whatever a client sends.
const mostText = 1 << 10

func (c *Call) shorten() {
	if c.Wrong != nil {
		c.Wrong = new(*c.Wrong)
		c.Wrong.Field, c.Wrong.Constraint = tool.ShortenBytes(c.Wrong.Field, mostText), tool.ShortenBytes(c.Wrong.Constraint, mostText)
	}
	for _, text := range [...]*string{&c.Server, &c.Tool, &c.ID, &c.Conversation, &c.Turn, &c.Prompt} {
		*text = tool.ShortenBytes(*text, mostText)
	}
}

func (l *Log) add(c Call) (err error) {
	c.shorten()
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if l.file == nil {
		if l.file, err = os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0o600); err != nil {
			return err
		}
	}
	info, err := l.file.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular(): // which a call might wait for
		return noFile(l.path)
	case info.Size() > mostBytes:
		return errFull
	}
	_, err = l.file.Write(append(line, '\n'))
	return err
}

// Check says why calls cannot be written down in a file: that it is another thing.
func Check(path string) error {
	if info, err := os.Stat(path); err != nil || info.Mode().IsRegular() {
		return nil //nolint:nilerr // it may be there by the first call
	}
	return noFile(path)
}

func noFile(path string) error {
	return fmt.Errorf("%s is not a regular file: name the file that observed calls are written to", path)
}

// Close closes the file; of nil there is none.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.close()
}

func (l *Log) close() error {
	file := l.file
	if l.file = nil; file == nil {
		return nil
	}
	return file.Close()
}

// longestLine bounds a line that is read, in bytes.
const longestLine = 1 << 20

// Read returns the calls in a file that were made since an instant, and how many lines are none: the
// last of a process that was killed.
func Read(path string, since time.Time) (calls []Call, broken int, err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // nobody waits for who writes to a pipe
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = file.Close() }() // only read from
	if info, err := file.Stat(); err != nil {
		return nil, 0, err
	} else if !info.Mode().IsRegular() {
		return nil, 0, noFile(path)
	}
	lines := bufio.NewReaderSize(io.LimitReader(file, mostBytes+longestLine), longestLine)
	for long := false; err == nil; {
		var line []byte
		if line, err = lines.ReadSlice('\n'); errors.Is(err, bufio.ErrBufferFull) {
			long, err = true, nil // the rest of it comes next
			continue
		}
		var c Call
		switch {
		case len(line) == 0 && !long: // the end
		case long || json.Unmarshal(line, &c) != nil || c.At.IsZero():
			broken++
		case !c.At.Before(since):
			calls = append(calls, c)
		}
		long = false
	}
	if !errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	return calls, broken, nil
}
