package observed_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/observed"
	"github.com/sidecall/sidecall/test/testkit/golden"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// calls are a day of two clients.
func calls() (all []observed.Call) {
	add := func(after time.Duration, c observed.Call) {
		c.At, c.Server = noon.Add(after), "files"
		if c.Effect == "" {
			c.Effect = "non_idempotent"
		}
		if c.Ended == "" {
			c.Ended = observed.OK
		}
		all = append(all, c)
	}
	add(0, observed.Call{Tool: "pay", ID: "p1", Same: "1"})
	add(2*time.Second, observed.Call{Tool: "pay", ID: "p1", Same: "1"})
	add(3*time.Second, observed.Call{Tool: "pay", ID: "p1", Same: "1"})
	add(4*time.Second, observed.Call{Tool: "pay", ID: "p1", Same: "2"})
	add(30*time.Second, observed.Call{Tool: "pay", ID: "p2", Same: "1"})
	add(10*time.Minute, observed.Call{Tool: "pay", Same: "1"})
	add(11*time.Minute, observed.Call{Tool: "pay", ID: "p4", Same: "4", Ended: observed.Lost})
	for i := range 6 {
		add(time.Hour+time.Duration(i)*time.Second, observed.Call{
			Tool: "look", ID: "l" + strconv.Itoa(i), Conversation: "c1", Same: "same", Result: "nothing", Effect: "read_only"})
	}
	for i := range 2 {
		add(2*time.Hour, observed.Call{Tool: "look", ID: "w" + strconv.Itoa(i), Same: "w" + strconv.Itoa(i), Effect: "read_only",
			Wrong: &observed.Wrong{Code: "INVALID_ARGS", Field: "path", Constraint: `type: "string"`}})
	}
	add(3*time.Hour, observed.Call{Tool: "read", ID: "r1", Same: "r", Effect: "read_only", Chars: 40_000, Shown: 32_000})
	add(3*time.Hour, observed.Call{Tool: "read", ID: "r2", Same: "s", Effect: "read_only", Chars: 31_000, Shown: 32_000})
	for i := range 3 {
		add(4*time.Hour+time.Duration(i)*time.Minute, observed.Call{Tool: "wire", ID: "x" + strconv.Itoa(i), Same: "x" + strconv.Itoa(i), Conversation: "c2", Prompt: "p",
			Held: i == 0, Most: 2, Untrusted: i == 1, Sensitive: true})
	}
	return all
}

func TestTheReport(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	observed.Of(calls()).Write(&page)
	golden.Check(t, filepath.Join("testdata", "report.golden.txt"), page.String())
	page.Reset()
	observed.Of(nil).Write(&page)
	if !strings.Contains(page.String(), "No calls were observed") || !strings.Contains(page.String(), "--file") {
		t.Error(page.String())
	}
}

// Processes write to one file, and what one of them has left unfinished keeps nobody from reading
// the rest.
func TestAFileOfSeveral(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "observed")
	var writing sync.WaitGroup
	for range 4 {
		log := observed.To(path, slog.New(slog.DiscardHandler))
		writing.Go(func() {
			for _, c := range calls() {
				log.Add(c)
			}
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"at":"2026-`); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	read, broken, err := observed.Read(path, time.Time{})
	if err != nil || broken != 1 || len(read) != 4*len(calls()) {
		t.Errorf("%d calls, %d broken, %v", len(read), broken, err)
	}
	if late, _, _ := observed.Read(path, noon.Add(time.Hour)); len(late) != 4*13 {
		t.Errorf("%d calls since one o'clock", len(late))
	}
	if none, _, err := observed.Read(path+" of nobody", time.Time{}); err != nil || none != nil {
		t.Errorf("%v, %v", none, err)
	}
}

// A file that cannot be written is no matter of the calls: it is said once, and once more when it could
// be written in between.
// A line is short, whatever a client sends: a long one would be the end of the report.
func TestACallWithLongTexts(t *testing.T) {
	path, long := filepath.Join(t.TempDir(), "observed.jsonl"), strings.Repeat("x", 2<<20)
	log := observed.To(path, slog.New(slog.DiscardHandler))
	wrong := observed.Wrong{Code: "INVALID_ARGS", Field: long, Constraint: long}
	log.Add(observed.Call{At: time.Now(), Server: long, Tool: long, ID: long, Conversation: long, Turn: long, Prompt: long, Wrong: &wrong})
	log.Add(observed.Call{At: time.Now(), Tool: "refund"})
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	calls, broken, err := observed.Read(path, time.Time{})
	if err != nil || broken != 0 || len(calls) != 2 || len(calls[0].Conversation) > 2<<10 || wrong.Field != long {
		t.Errorf("%d calls, %d broken, %v", len(calls), broken, err)
	}
}

// A line that is none costs itself, however long it is: as a disk that lost its power leaves it. The report says so.
func TestALineThatIsNone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "observed.jsonl")
	log := observed.To(path, slog.New(slog.DiscardHandler))
	log.Add(calls()[0])
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := slices.Concat(make([]byte, 3<<20), []byte("\n"), whole, make([]byte, 5), []byte("\n"), whole, make([]byte, 1<<20))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	read, broken, err := observed.Read(path, time.Time{})
	if err != nil || broken != 3 || len(read) != 2 {
		t.Errorf("%d calls, %d broken, %v", len(read), broken, err)
	}
	for _, calls := range [][]observed.Call{read, nil} {
		report := observed.Of(calls)
		report.Broken = broken
		var page bytes.Buffer
		report.Write(&page)
		if !strings.Contains(page.String(), "3 lines of the file cannot be read") {
			t.Error(page.String())
		}
	}
}

func TestAFileThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "not yet", "observed")
	var said bytes.Buffer
	log := observed.To(path, slog.New(slog.NewTextHandler(&said, nil)))
	log.Add(calls()[0])
	log.Add(calls()[0])
	if n := strings.Count(said.String(), "not written down"); n != 1 {
		t.Errorf("said %d times: %s", n, said.String())
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	log.Add(calls()[1])
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	if read, _, err := observed.Read(path, time.Time{}); err != nil || len(read) != 1 {
		t.Errorf("%d calls, %v", len(read), err)
	}
}

// Nobody waits for a pipe that nobody writes to: only a file is read.
func TestWhatIsNoFileIsNotRead(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "observed.jsonl")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, _, err := observed.Read(pipe, time.Time{})
		read <- err
	}()
	select {
	case err := <-read:
		if err == nil || !strings.Contains(err.Error(), pipe) || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("it was read: %v", err)
		}
	case <-time.After(10 * time.Second): // long beyond what it takes
		t.Fatal("it is waited for")
	}
}

// Nor does a call wait for a pipe, whether nobody reads it or somebody has it open and does not.
func TestWhatIsNoFileIsNotWritten(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "observed.jsonl")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	log := observed.To(pipe, slog.New(slog.NewTextHandler(&said, nil)))
	added := make(chan struct{})
	go func() {
		defer close(added)
		log.Add(calls()[0])
		reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = reader.Close() }()
		for range 1 << 10 { // more than a pipe holds
			log.Add(calls()[0])
		}
	}()
	select {
	case <-added:
	case <-time.After(10 * time.Second): // long beyond what it takes
		t.Fatal("a call waits for it")
	}
	if !strings.Contains(said.String(), "not written down") {
		t.Error(said.String())
	}
}

// Every server is there once, however many there are: what a report costs grows as they do.
func TestAReportOfManyServers(t *testing.T) {
	t.Parallel()
	const servers = 100_000
	var all []observed.Call
	for i := range 2 * servers {
		all = append(all, observed.Call{At: noon, Server: strconv.Itoa(i % servers), Tool: "look", Effect: "read_only", Ended: observed.OK})
	}
	if got := observed.Of(all).Servers; len(got) != servers || !slices.IsSorted(got) {
		t.Errorf("%d servers of %d", len(got), servers)
	}
}
