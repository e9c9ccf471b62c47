// Command engines measures what could carry the embedded store: bbolt, pebble
// and SQLite (modernc.org, pure Go), each under the same group commit and the
// same work. It is a module of its own so that the losers are no dependency of
// Sidecall. docs/adr/0002-embedded-engine.md quotes its output.
//
// One call is a claim (read the key, write the record, note the open claim,
// note when it expires) and then a settlement (read it, write it again with its
// result beside it, strike the open claim). 32 callers do one call after the
// other; a committer takes all that waits, writes it in one transaction and
// answers when the disk has it.
//
// -order says where records lie: by key, as it comes to mind first, or by time,
// under a number that counts up, found by an index in memory.
//
// The sync column adds a wait of that long for every fsync that the engine
// makes in a commit, to see what a slower disk would do.
package main

import (
	"crypto/rand"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// engine stores what one committer gives it.
type engine interface {
	// commit applies the writes of a group and returns when they are durable.
	commit(group []*write) error
	// expire forgets the oldest n records, in durable steps.
	expire(n int) error
	close() error
}

// candidate is an engine and how to open it.
type candidate struct {
	name string
	// syncs is how often a commit waits for the disk.
	syncs int
	open  func(dir string) (engine, error)
}

// write is half a call.
type write struct {
	settle bool
	key    []byte
	place  []byte // of the record: the key, or its number
	record []byte
	result []byte
	seq    uint64
	done   chan struct{}
}

var candidates = []candidate{
	{"bbolt", 2, openBolt},
	{"pebble", 1, openPebble},
	{"sqlite", 1, openSQLite},
}

func main() {
	names := flag.String("engines", "bbolt,pebble,sqlite", "which to measure")
	records := flag.Int("records", 1_000_000, "records to fill the store with before the second measurement")
	calls := flag.Int("calls", 40_000, "calls per measurement")
	callers := flag.Int("callers", 32, "calls in flight")
	syncTime := flag.Duration("sync", time.Millisecond, "time added per fsync in the slow-disk column")
	order := flag.String("order", "time", "how records lie: key or time")
	dir := flag.String("dir", ".", "a directory on the disk to measure")
	flag.Parse()
	byKey = *order == "key"
	fmt.Println("| engine | order | records before | calls/s | p50 | p99 | CPU per call | written per call | calls/s, +" + syncTime.String() + " per fsync | files | open again |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|")
	for _, c := range candidates {
		if slices.Contains(strings.Split(*names, ","), c.name) {
			if err := measure(c, *dir, *records, *calls, *callers, *syncTime); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", c.name, err)
				os.Exit(1)
			}
		}
	}
}

// measure prints three lines: an empty store, a full one, and one whose records
// have all expired.
func measure(c candidate, parent string, records, calls, callers int, syncTime time.Duration) error {
	dir, err := os.MkdirTemp(parent, "engine-"+c.name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	e, err := c.open(dir)
	if err != nil {
		return err
	}
	var reopened time.Duration
	line := func(before string) error {
		fast := load(e, calls, callers, 0)
		slow := load(e, calls/4, callers, time.Duration(c.syncs)*syncTime)
		if err := e.close(); err != nil {
			return err
		}
		start := time.Now()
		if e, err = c.open(dir); err != nil {
			return err
		}
		reopened = time.Since(start)
		fmt.Printf("| %s | %s | %s | %.0f | %v | %v | %v | %.1f KiB | %.0f | %d MiB | %v |\n", c.name,
			map[bool]string{true: "key", false: "time"}[byKey], before, fast.rate(), fast.percentile(50), fast.percentile(99),
			fast.cpu, fast.written/1024, slow.rate(), size(dir)>>20, reopened.Round(time.Millisecond))
		return nil
	}
	if err := line("0"); err != nil {
		return err
	}
	load(e, records, 512, 0)
	if err := line(fmt.Sprint(records)); err != nil {
		return err
	}
	if err := e.expire(records); err != nil {
		return err
	}
	if err := line(fmt.Sprintf("%d, expired", records)); err != nil {
		return err
	}
	return e.close()
}

// figures of one load.
type figures struct {
	calls     int
	took      time.Duration
	latencies []time.Duration
	cpu       time.Duration // per call
	written   float64       // bytes to the disk, per call
}

func (f figures) rate() float64 { return float64(f.calls) / f.took.Seconds() }

func (f figures) percentile(p int) time.Duration {
	slices.Sort(f.latencies)
	return f.latencies[len(f.latencies)*p/100].Round(10 * time.Microsecond)
}

// load makes calls through a committer of its own.
func load(e engine, calls, callers int, syncTime time.Duration) figures {
	queue := make(chan *write, callers)
	var committer sync.WaitGroup
	committer.Go(func() { commitGroups(e, queue, syncTime) })

	cpu, written, start := cpuTime(), bytesWritten(), time.Now()
	latencies := make([][]time.Duration, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			done := make(chan struct{}, 1)
			for range calls / callers {
				begun := time.Now()
				w := write{key: randomKey(), record: make([]byte, 160), done: done}
				queue <- &w
				<-done
				settle := write{settle: true, key: w.key, record: w.record, result: randomResult(), seq: w.seq, done: done}
				queue <- &settle
				<-done
				latencies[i] = append(latencies[i], time.Since(begun))
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	close(queue)
	committer.Wait()
	done := calls / callers * callers
	return figures{
		done, took, slices.Concat(latencies...), ((cpuTime() - cpu) / time.Duration(done)).Round(100 * time.Nanosecond),
		(bytesWritten() - written) / float64(done),
	}
}

// byKey is -order key.
var byKey bool

// sequence numbers the claims, as the store's clock does.
var sequence uint64

// commitGroups commits whatever waits, as one group, until the queue is closed.
func commitGroups(e engine, queue <-chan *write, syncTime time.Duration) {
	var group []*write
	for w := range queue {
		group = append(group[:0], w)
		for yields := 0; yields < 3 && len(group) < 1024; {
			select {
			case w, ok := <-queue:
				if !ok {
					yields = 3
					break
				}
				group, yields = append(group, w), 0
			default:
				// The callers that the last group has just set free are about
				// to ask again: let them run, rather than commit one alone.
				runtime.Gosched()
				yields++
			}
		}
		for _, w := range group {
			if !w.settle {
				sequence++
				w.seq = sequence
			}
			if w.place = w.key; !byKey {
				w.place = bigEndian(w.seq)
			}
		}
		if err := e.commit(group); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		time.Sleep(syncTime)
		for _, w := range group {
			w.done <- struct{}{}
		}
	}
}

// randomKey looks like a tenant, a conversation, a turn and an id.
func randomKey() []byte {
	return []byte("tenant\x00" + rand.Text() + "\x003\x00toolu_" + rand.Text()[:20])
}

// randomResult is text of 600 bytes that compresses about as well as JSON.
func randomResult() []byte {
	b := make([]byte, 0, 600)
	for len(b) < 600 {
		b = append(b, rand.Text()...)
		b = append(b, `","description":"`...)
	}
	return b[:600]
}

func bigEndian(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bytesWritten is what this process has caused to be written to a disk; 0 where
// the system does not say.
func bytesWritten() float64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var n float64
		if _, err := fmt.Sscanf(line, "write_bytes: %f", &n); err == nil {
			return n
		}
	}
	return 0
}

func size(dir string) (total int64) {
	err := filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			total += info.Size()
		}
		return err
	})
	if err != nil {
		return -1
	}
	return total
}
