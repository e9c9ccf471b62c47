//go:build prove

package crash

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// remembered is how many calls of each tool the damaged file knows.
const remembered = 20

// A file that is damaged while the sidecar is down is refused, by name and
// reason, and left as it is; or the damage is where it matters to nobody, and
// everything that was acknowledged is still there. Nothing is silently dropped.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	p := &damages{tally: newTally(), world: startWorld(t)}
	p.prepare(t)
	runs := proof.Runs(16, 400)
	var next atomic.Int64
	workers(t, 4, func(t *testing.T, _ int) {
		s := harness.New(t, p.world.config(embeddedStore, time.Hour))
		for i := next.Add(1); i <= int64(runs); i = next.Add(1) {
			p.one(t, s, rand.New(rand.NewPCG(1, uint64(i))))
		}
	})
	p.finish(t, runs)
}

// damages is the proof.
type damages struct {
	*tally
	world   *world
	whole   []byte // the file as the process that was killed left it
	answers map[string]*response
	open    string // the call that was being made then
}

// prepare makes the file: calls that were answered, one that was not.
func (p *damages) prepare(t *testing.T) {
	t.Helper()
	s := harness.Start(t, p.world.config(embeddedStore, time.Hour))
	p.answers, p.open = map[string]*response{}, "open"
	for i := range remembered {
		for _, tool := range tools {
			id := fmt.Sprintf("%s-%d", tool, i)
			answer, err := send(t, s, tool, id)
			if err != nil || answer.GetIsError() {
				t.Fatalf("%v, %v", answer, err)
			}
			p.answers[id] = answer
		}
	}
	held := p.world.hold(p.open)
	var call errgroup.Group
	call.Go(func() error {
		_, err := send(t, s, act, p.open)
		return err
	})
	held.await(t)
	s.Kill()
	if err := call.Wait(); !isUnavailable(err) {
		t.Fatalf("the call that was being made: %v", err)
	}
	var err error
	if p.whole, err = os.ReadFile(filepath.Join(s.Dir, "sidecall.db")); err != nil {
		t.Fatal(err)
	}
}

// mostSpots bounds the damaged spots of one file. Much of a file holds nothing
// any more, and a single spot mostly falls there.
const mostSpots = 8

// damage makes a damaged copy, and says what was done.
func (p *damages) damage(random *rand.Rand) (file []byte, what []string) {
	file = bytes.Clone(p.whole)
	for range 1 + random.IntN(mostSpots) {
		var did string
		file, did = spoil(file, random)
		what = append(what, did)
	}
	return file, what
}

// spoil damages one spot of a file.
func spoil(file []byte, random *rand.Rand) (_ []byte, what string) {
	at := random.IntN(len(file))
	length := min(1+random.IntN(4096), len(file)-at)
	switch random.IntN(9) {
	case 0:
		return file[:at+1], fmt.Sprintf("cut to %d of %d bytes", at+1, len(file))
	case 1, 2:
		clear(file[at : at+length])
		what = "zeroed"
	case 3, 4:
		copy(file[at:at+length], file[random.IntN(len(file)-length+1):])
		what = "overwritten with another part"
	case 5, 6:
		for i := range length {
			file[at+i] = byte(random.Uint32())
		}
		what = "overwritten at random"
	default:
		file[at] ^= 1 << random.IntN(8)
		length, what = 1, "a bit flipped"
	}
	return file, fmt.Sprintf("%d bytes at %d %s", length, at, what)
}

// one damages the file and starts a sidecar on it.
func (p *damages) one(t *testing.T, s *harness.Sidecar, random *rand.Rand) {
	t.Helper()
	path := filepath.Join(s.Dir, "sidecall.db")
	file, what := p.damage(random)
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	s.TakeLog()
	ready, code := s.Try()
	if ready {
		p.checkHarmless(t, s, what)
		end(s)
		return
	}
	p.add("refused", 1)
	log := s.TakeLog()
	if code != 3 || !strings.Contains(log, "sidecall.db: the store is corrupt") || !strings.Contains(log, "left untouched") {
		p.broken(t, "%v: exit code %d, and it says: %s", what, code, log)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, file) {
		p.broken(t, "%v: the file has changed, %v", what, err)
	}
}

// checkHarmless asks for everything that the file knew.
func (p *damages) checkHarmless(t *testing.T, s *harness.Sidecar, what []string) {
	t.Helper()
	p.add("harmless", 1)
	for id, before := range p.answers {
		tool, _, _ := strings.Cut(id, "-")
		if after, err := send(t, s, tool, id); err != nil || !after.GetReplayed() || !sameAnswer(before, after) {
			p.broken(t, "%v: %s was answered %v, and now %v, %v", what, id, before, after, err)
		}
	}
	if answer, err := send(t, s, act, p.open); err != nil || answer.GetError().GetCode() != "OUTCOME_UNKNOWN" {
		p.broken(t, "%v: the call that was being made is answered %v, %v", what, answer, err)
	}
}

func (p *damages) finish(t *testing.T, runs int) {
	t.Helper()
	executions := p.world.onDisk(t)
	for id, n := range executions {
		if n != 1 {
			p.broken(t, "%s was executed %d times", id, n)
		}
	}
	if p.of("refused") == 0 {
		t.Error("no damage was found: the test misses the data")
	}
	proof.Report(t, proof.Row{
		Fault: "file damaged while the sidecar is down", Store: "embedded", Runs: runs, Violations: p.violations,
		Figure: fmt.Sprintf("%d refused and left as they were, %d harmless: all %d records still there",
			p.of("refused"), p.of("harmless"), len(p.answers)+1),
	})
}

// A disk that is full costs calls, and no promise: nothing is executed without
// a durable claim, nothing twice, and all goes on by itself when there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	p := &fullDisk{tally: newTally(), world: startWorld(t), answers: map[string]*response{}}
	for name, prepare := range fullDisks {
		t.Run(name, func(t *testing.T) { p.run(t, name, prepare(t, p)) })
	}
	p.finish(t)
}

// fullDisks are the kinds of it.
var fullDisks = map[string]func(*testing.T, *fullDisk) disk{
	"bound on the file's size": limitFile,
	"full file system":         mountSmall,
}

// disk is where a sidecar has its file. fill makes it full, free makes room.
type disk struct {
	sidecar    *harness.Sidecar
	fill, free func(t *testing.T)
}

// roomLeft is what a full disk has left, in bytes: some calls must still fit.
const roomLeft = 96 << 10

// mountSmall mounts a file system of its own, which a file fills. That takes
// root; the full size of the proof fails without.
func mountSmall(t *testing.T, p *fullDisk) disk {
	t.Helper()
	dir := t.TempDir()
	const size = 8 << 20
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("a file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	store := fmt.Sprintf("{embedded: {path: %q}}", filepath.Join(dir, "sidecall.db"))
	ballast := filepath.Join(dir, "ballast")
	return disk{
		sidecar: harness.Start(t, p.world.config(store, shortLease)),
		fill: func(t *testing.T) {
			t.Helper()
			var free syscall.Statfs_t
			if err := syscall.Statfs(dir, &free); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(ballast, make([]byte, int64(free.Bavail)*free.Bsize-roomLeft), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		free: func(t *testing.T) {
			t.Helper()
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// limitFile bounds the size of the files that the process writes.
func limitFile(t *testing.T, p *fullDisk) disk {
	t.Helper()
	s := harness.Start(t, p.world.config(embeddedStore, shortLease))
	return disk{
		sidecar: s,
		fill: func(t *testing.T) {
			t.Helper()
			file, err := os.Stat(filepath.Join(s.Dir, "sidecall.db"))
			if err != nil {
				t.Fatal(err)
			}
			setFileLimit(t, s.PID(), uint64(file.Size()))
		},
		free: func(t *testing.T) {
			t.Helper()
			setFileLimit(t, s.PID(), unlimited)
		},
	}
}

// fullDisk is the proof.
type fullDisk struct {
	*tally
	world   *world
	answers map[string]*response // that were recorded
	refused []string
	unsure  []string // executed, and not recorded
	kinds   []string // of full disks that were tried to the end
}

const (
	// mostCalls bounds the calls that fit on a full disk.
	mostCalls = 5000
	// enoughRefused is how many refused calls are looked at.
	enoughRefused = 8
)

func (p *fullDisk) run(t *testing.T, name string, d disk) {
	t.Helper()
	p.answers, p.refused, p.unsure = map[string]*response{}, nil, nil
	prefix := strings.ReplaceAll(t.Name(), "/", "-")
	for i := range 5 {
		id := fmt.Sprintf("%s-before-%d", prefix, i)
		answer, err := p.sendHeld(t, d.sidecar, act, id)
		p.judge(t, id, answer, err)
	}
	if len(p.answers) != 5 {
		t.Fatalf("with room only %d of 5 calls are recorded", len(p.answers))
	}
	d.fill(t)
	for i := 0; i < mostCalls && len(p.refused) < enoughRefused; i++ {
		id := fmt.Sprintf("%s-full-%d", prefix, i)
		answer, err := send(t, d.sidecar, act, id)
		p.judge(t, id, answer, err)
	}
	if len(p.refused) == 0 {
		t.Fatalf("%d calls on a full disk, and none was refused", mostCalls)
	}
	says(t, d.sidecar, http.StatusServiceUnavailable, `"store_down"`, "is full")
	p.add("refused", len(p.refused))
	p.add("not recorded", len(p.unsure))
	p.add("recorded", len(p.answers))
	d.free(t)
	says(t, d.sidecar, http.StatusOK)
	p.recovers(t, d.sidecar)
	d.sidecar.Kill()
	d.sidecar.Run()
	p.remembers(t, d.sidecar)
	p.kinds = append(p.kinds, name)
}

// says waits until /readyz answers with a code and some words.
func says(t *testing.T, s *harness.Sidecar, code int, words ...string) {
	t.Helper()
	harness.WaitFor(t, fmt.Sprint("/readyz to say ", code), func() bool {
		got, text := s.Get("/readyz")
		return got == code && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
	})
}

// judge judges the answer to a call by what really happened.
func (p *fullDisk) judge(t *testing.T, id string, answer *response, err error) {
	t.Helper()
	executed := p.world.ledger.Executions(id)
	switch {
	case err != nil:
		p.broken(t, "%s: %v", id, err)
	case answer.GetError().GetCode() == "STORE_UNAVAILABLE":
		p.refused = append(p.refused, id)
		if executed != 0 || answer.GetRecovery().GetAttempts() != 0 {
			p.broken(t, "%s was refused, and executed %d times: %v", id, executed, answer)
		}
	case answer.GetIsError() || executed != 1:
		p.broken(t, "%s was executed %d times and answered %v", id, executed, answer)
	case answer.GetRecorded():
		p.answers[id] = answer
	default:
		p.unsure = append(p.unsure, id)
	}
}

// recovers sends what was refused once more, until it runs.
func (p *fullDisk) recovers(t *testing.T, s *harness.Sidecar) {
	t.Helper()
	for _, id := range p.refused {
		harness.WaitFor(t, id+" to run", func() bool {
			answer, err := send(t, s, act, id)
			if err == nil && !answer.GetIsError() && answer.GetRecorded() {
				p.answers[id] = answer
				return true
			}
			return false
		})
	}
}

// remembers looks, after a kill and a start, at everything that was said.
func (p *fullDisk) remembers(t *testing.T, s *harness.Sidecar) {
	t.Helper()
	for id, before := range p.answers {
		if after, err := send(t, s, act, id); err != nil || !after.GetReplayed() || before.GetContent() != after.GetContent() {
			p.broken(t, "%s was answered %v, and now %v, %v", id, before, after, err)
		}
	}
	for _, id := range p.unsure {
		if after, err := p.sendHeld(t, s, act, id); err != nil || !after.GetReplayed() {
			p.broken(t, "%s was executed and not recorded, and is now answered %v, %v", id, after, err)
		}
	}
}

func (p *fullDisk) finish(t *testing.T) {
	t.Helper()
	for id, n := range p.world.onDisk(t) {
		if n != 1 {
			p.broken(t, "%s was executed %d times", id, n)
		}
	}
	if proof.Full() && len(p.kinds) < len(fullDisks) {
		t.Errorf("of %d kinds of a full disk only these could be tried: %q", len(fullDisks), p.kinds)
	}
	slices.Sort(p.kinds)
	proof.Report(t, proof.Row{
		Fault: "disk full", Store: "embedded", Runs: len(p.kinds), Violations: p.violations,
		Figure: fmt.Sprintf("%s: %d calls recorded, %d refused with nothing executed, %d executed under a durable claim and told as not recorded; all went on by itself",
			strings.Join(p.kinds, ", "), p.of("recorded"), p.of("refused"), p.of("not recorded")),
	})
}
