package definition

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Servers choose the names of their tools, and may choose others for ever; the file
// is one for all backends, and has to be read at the next start.
const (
	// MaxName bounds the name of a tool that has a pin, in bytes.
	MaxName = 256
	// maxPins bounds the pins of one backend: twice as many as the tools that a
	// server may list.
	maxPins = 20_000
	// maxFile bounds the file of pins, in bytes.
	maxFile = 32 << 20
)

// Tool names a tool: its backend, and what that calls it.
type Tool struct{ Backend, Name string }

// Pins remember definitions, in a file that people read, edit and commit: a line for
// each tool. They are safe for concurrent use.
//
//	# What the tools of discovering backends say of themselves, as first seen. ...
//	files read_file sha256:6b1f... description=0a1b2c3d input_schema=... ...
type Pins struct {
	// path of the file; empty for none: what is remembered ends with the process.
	path string
	// unwritten: the file is read and never written; left says that something would have been.
	unwritten, left bool

	mu    sync.Mutex
	known map[Tool]Pin
}

// head begins the file.
const head = `# What the tools of discovering backends say of themselves, as it was first seen.
# With pin: true a tool that says something else is refused. To accept what it says
# now, remove its line, or write the hash that the log shows; then reload (SIGHUP).
`

// OpenPins reads the file at path; one that is not there is empty. Without a path
// nothing outlives the process. The error names the line.
func OpenPins(path string) (*Pins, error) {
	p := &Pins{path: path, known: make(map[Tool]Pin)}
	return p, p.read()
}

// Unwritten are the same pins for who only looks: the file stays as it is.
func (p *Pins) Unwritten() *Pins {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &Pins{path: p.path, unwritten: true, known: maps.Clone(p.known)}
}

// Left reports that pins who only looks has something to remember that the file does not have.
func (p *Pins) Left() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left
}

// Path of the file; empty when there is none.
func (p *Pins) Path() string { return p.path }

// Known returns the pins of tools; those that have none are missing. What others have
// written to the file meanwhile counts.
func (p *Pins) Known(tools []Tool) (map[Tool]Pin, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.read()
	known := make(map[Tool]Pin, len(tools))
	for _, t := range tools {
		if pin, ok := p.known[t]; ok {
			known[t] = pin
		}
	}
	return known, err
}

// Remember writes pins down, in the place of others of the same tools. When the file
// cannot be written they are remembered until the process ends; when there are too
// many, none of them is.
func (p *Pins) Remember(pins map[Tool]Pin) error {
	if len(pins) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// What others have written meanwhile stays, and what is no file of pins, be it for
	// a slip of the hand, is not written over.
	unread := p.read()
	next := maps.Clone(p.known)
	maps.Copy(next, pins)
	if err := bounded(next); err != nil {
		return err
	}
	text := format(next)
	if len(text) > maxFile {
		return fmt.Errorf("it would be larger than %d bytes", maxFile)
	}
	p.known, p.left = next, p.unwritten
	if unread != nil {
		return fmt.Errorf("it is left as it is: %w", unread)
	}
	return p.write(text)
}

// bounded says of which backend there are too many pins.
func bounded(known map[Tool]Pin) error {
	of := make(map[string]int)
	for t := range known {
		of[t.Backend]++
	}
	for backend, n := range of {
		if n > maxPins {
			return fmt.Errorf("the backend %s would have more than %d lines: remove those of tools that are gone", backend, maxPins)
		}
	}
	return nil
}

func (p *Pins) read() error {
	if p.path == "" {
		return nil
	}
	file, err := os.Open(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return err
	}
	if len(text) > maxFile {
		return fmt.Errorf("%s is larger than %d bytes", p.path, maxFile)
	}
	known, err := parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	p.known = known
	return nil
}

// write replaces the file whole, so that nobody reads half of it. It is on the disk
// before it has its name: a machine that loses its power must not find an empty one,
// with which every tool would be believed anew.
func (p *Pins) write(text []byte) error {
	if p.path == "" || p.unwritten {
		return nil
	}
	temporary, err := os.CreateTemp(filepath.Dir(p.path), filepath.Base(p.path)+".*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(text)
	err = errors.Join(err, temporary.Chmod(0o644), temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), p.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// plainWord needs no quotes.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.:/-]+$`)

func format(known map[Tool]Pin) []byte {
	var out bytes.Buffer
	out.WriteString(head)
	compare := func(a, b Tool) int {
		return strings.Compare(a.Backend+"\x00"+a.Name, b.Backend+"\x00"+b.Name)
	}
	for _, t := range slices.SortedFunc(maps.Keys(known), compare) {
		pin := known[t]
		fmt.Fprintf(&out, "%s %s %s", word(t.Backend), word(t.Name), pin.Hash)
		for i, part := range pin.Parts {
			fmt.Fprintf(&out, " %s=%s", parts[i], part)
		}
		out.WriteByte('\n')
	}
	return out.Bytes()
}

func word(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

// pinLine is a line of the file.
var pinLine = regexp.MustCompile(`^("(?:[^"\\]|\\.)*"|\S+)\s+("(?:[^"\\]|\\.)*"|\S+)\s+(sha256:[0-9a-f]{64})((?:\s+[a-z_]+=[0-9a-f]+)*)$`)

func parse(text []byte) (map[Tool]Pin, error) {
	known := make(map[Tool]Pin)
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxFile)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		found := pinLine.FindStringSubmatch(line)
		if found == nil {
			return nil, fmt.Errorf("line %d: want a backend, the name of a tool, and sha256: with 64 hex digits", number)
		}
		t := Tool{unquoted(found[1]), unquoted(found[2])}
		if _, twice := known[t]; twice {
			return nil, fmt.Errorf("line %d: the tool %s of the backend %s has a line already", number, word(t.Name), word(t.Backend))
		}
		known[t] = Pin{Hash: found[3], Parts: partsOf(found[4])}
	}
	return known, lines.Err()
}

func unquoted(word string) string {
	if plain, err := strconv.Unquote(word); err == nil {
		return plain
	}
	return word
}

// partsOf reads the hashes of the parts; none when they are not all there, as in a
// line that a person wrote.
func partsOf(text string) []string {
	fields := strings.Fields(text)
	if len(fields) != len(parts) {
		return nil
	}
	out := make([]string, len(parts))
	for i, field := range fields {
		hash, ok := strings.CutPrefix(field, parts[i]+"=")
		if !ok {
			return nil
		}
		out[i] = hash
	}
	return out
}
