//go:build prove

package crash

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// Something happens to the file under a sidecar that has much to do. Every call
// is answered, what is refused was not executed, nothing is executed twice,
// /readyz says why, and the sidecar ends when it is asked to.
func TestFileDamagedUnderTheSidecar(t *testing.T) {
	t.Parallel()
	p := &fileMishaps{tally: newTally(), world: startWorld(t)}
	p.world.slow(4 * time.Millisecond)
	runs := proof.Runs(10, 200)
	kinds := slices.Sorted(maps.Keys(fileMishapKinds))
	var next atomic.Int64
	workers(t, 2, func(t *testing.T, _ int) {
		for i := next.Add(1); i <= int64(runs); i = next.Add(1) {
			p.one(t, int(i), kinds[int(i)%len(kinds)])
		}
	})
	p.finish(t)
}

// fileMishapKinds are what can happen to a file.
var fileMishapKinds = map[string]func(path string) error{
	"cut":     func(path string) error { return os.Truncate(path, 0) },
	"removed": os.Remove,
	"replaced": func(path string) error {
		file, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return errors.Join(os.WriteFile(path+".copy", file, 0o600), os.Rename(path+".copy", path))
	},
	"zeroed": func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(make([]byte, info.Size()), 0)
		return errors.Join(err, f.Close())
	},
	"cut to its head": func(path string) error { return os.Truncate(path, 8192) },
}

// fileMishaps is the proof.
type fileMishaps struct {
	*tally
	world *world
}

func (p *fileMishaps) one(t *testing.T, run int, kind string) {
	t.Helper()
	s := harness.New(t, p.world.config(embeddedStore, time.Hour))
	s.Run()
	var damaged atomic.Bool
	var answered atomic.Int64
	var sending errgroup.Group
	for caller := range callers {
		sending.Go(func() error {
			for i := 0; ; i++ {
				if p.call(t, s, fmt.Sprintf("mishap-%d-%d-%d", run, caller, i)) && damaged.Load() {
					return nil
				}
				answered.Add(1)
			}
		})
	}
	begun := 1 + rand.Int64N(3*callers) // a file without a call is no more than its head
	harness.WaitFor(t, "calls to be answered", func() bool { return answered.Load() >= begun })
	damaged.Store(true)
	if err := fileMishapKinds[kind](filepath.Join(s.Dir, "sidecall.db")); err != nil {
		t.Fatal(err)
	}
	_ = sending.Wait() // what is wrong is told where it is seen
	harness.WaitFor(t, "/readyz to say that the store has failed", func() bool {
		code, text := s.Get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(text, "has failed")
	})
	if log := s.Log(); strings.Contains(log, "goroutine ") {
		p.broken(t, "%s: it panicked:\n%s", kind, log)
	}
	p.add(kind, 1)
	s.Stop() // which fails the test unless it ends well
}

// call makes a call and judges its answer by what was executed; true when it was
// refused, or had no answer.
func (p *fileMishaps) call(t *testing.T, s *harness.Sidecar, id string) (refused bool) {
	t.Helper()
	answer, err := send(t, s, act, id)
	executed := p.world.ledger.Executions(id)
	switch {
	case err != nil:
		p.broken(t, "%s: %v", id, err)
		return true
	case answer.GetError().GetCode() == "STORE_UNAVAILABLE":
		p.add("refused", 1)
		if executed != 0 || answer.GetRecovery().GetAttempts() != 0 {
			p.broken(t, "%s was refused, and executed %d times: %v", id, executed, answer)
		}
		return true
	case answer.GetIsError() || executed != 1:
		p.broken(t, "%s was executed %d times and answered %v", id, executed, answer)
	case answer.GetRecorded():
		p.add("recorded", 1)
	default:
		p.add("not recorded", 1)
	}
	return false
}

func (p *fileMishaps) finish(t *testing.T) {
	t.Helper()
	runs := 0
	for kind := range fileMishapKinds {
		if runs += p.of(kind); p.of(kind) == 0 {
			t.Errorf("no file was %s", kind)
		}
	}
	for id, n := range p.world.onDisk(t) {
		if n != 1 {
			p.broken(t, "%s was executed %d times", id, n)
		}
	}
	if p.of("recorded") == 0 || p.of("refused") == 0 {
		t.Error("no call came before the mishap, or none after it")
	}
	proof.Report(t, proof.Row{
		Fault: "file damaged or gone under the running sidecar", Store: "embedded", Runs: runs, Violations: p.violations,
		Figure: fmt.Sprintf("%d calls recorded before, %d at work answered with recorded false, %d refused with nothing executed; all sidecars ended as asked",
			p.of("recorded"), p.of("not recorded"), p.of("refused")),
	})
}
