// Package observed has what a wrapper that only observes writes down of the calls that it lets
// pass, and what Sidecall would have done of them.
package observed

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
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
	// Ended is OK, Failed, Refused or Lost.
	Ended string `json:"ended"`
	// Chars is how many characters the text of the result has, Shown how many would have been
	// shown at the most.
	Chars int `json:"chars,omitempty"`
	Shown int `json:"shown,omitempty"`
	// Wrong is why it would not have been sent; nil when it would.
	Wrong *Wrong `json:"wrong,omitempty"`
}

// How a call has ended.
const (
	OK      = "ok"
	Failed  = "failed"  // the tool says so
	Refused = "refused" // the server answers with an error of the protocol
	Lost    = "lost"    // the server has ended before it answered
)

// Wrong is what a model would have been told of a call, but for the value that it sent.
type Wrong struct {
	Code       string `json:"code"`
	Field      string `json:"field"`
	Constraint string `json:"constraint"`
}

// Log is a file to which several processes add lines.
type Log struct {
	mu   sync.Mutex
	file *os.File
}

// Open opens a file for what is observed, and makes it where there is none.
func Open(path string) (*Log, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &Log{file: file}, nil
}

var errFull = errors.New("the file of what is observed is full: move it away")

// Add writes a call down, in one line and one write, so that those of several processes stay apart.
func (l *Log) Add(c Call) error {
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if info, err := l.file.Stat(); err == nil && info.Size() > mostBytes {
		return errFull
	}
	_, err = l.file.Write(append(line, '\n'))
	return err
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }

// longestLine bounds a line that is read, in bytes.
const longestLine = 1 << 20

// Read returns the calls in a file that were made since an instant, and how many lines are none: the
// last of a process that was killed.
func Read(path string, since time.Time) (calls []Call, broken int, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = file.Close() }() // only read from
	lines := bufio.NewScanner(io.LimitReader(file, mostBytes+longestLine))
	lines.Buffer(make([]byte, 64<<10), longestLine)
	for lines.Scan() {
		var c Call
		switch {
		case json.Unmarshal(lines.Bytes(), &c) != nil || c.At.IsZero():
			broken++
		case !c.At.Before(since):
			calls = append(calls, c)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	return calls, broken, nil
}
