//go:build prove

package crash

import (
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/test/testkit/harness"
)

// tally counts what many workers see.
type tally struct {
	mu         sync.Mutex
	counts     map[string]int
	violations int
}

func newTally() *tally { return &tally{counts: map[string]int{}} }

func (y *tally) add(what string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.counts[what] += n
}

// most keeps the largest of the numbers.
func (y *tally) most(what string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.counts[what] = max(y.counts[what], n)
}

func (y *tally) of(what string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.counts[what]
}

// broken counts and reports a broken promise.
func (y *tally) broken(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Errorf(format, args...)
	y.mu.Lock()
	defer y.mu.Unlock()
	y.violations++
}

// triesHeld bounds sendHeld.
const triesHeld = 10

// sendHeld sends a call, and again when its claim ran out before anything was
// sent: on a machine so busy that an answer of the store takes as long as the
// short lease, that is the right thing to say.
func (y *tally) sendHeld(t *testing.T, s *harness.Sidecar, tool, id string) (answer *response, err error) {
	t.Helper()
	for range triesHeld {
		answer, err = send(t, s, tool, id)
		if answer.GetError().GetCode() != "STORE_UNAVAILABLE" || answer.GetRecovery().GetAttempts() != 0 {
			break
		}
		y.add("lease too short", 1)
	}
	return answer, err
}

func isNotFound(err error) bool    { return status.Code(err) == codes.NotFound }
func isUnavailable(err error) bool { return status.Code(err) == codes.Unavailable }

// end kills a sidecar that has nothing to do, wherever it is.
func end(s *harness.Sidecar) {
	s.Kill()
	s.TakeLog()
}

// workers runs n workers side by side and waits for them. Each is a test of its
// own, and one that cannot go on ends alone.
func workers(t *testing.T, n int, work func(t *testing.T, worker int)) {
	t.Helper()
	t.Run("workers", func(t *testing.T) {
		for worker := range n {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				work(t, worker)
			})
		}
	})
}
