//go:build prove

package crash

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/sidecall/sidecall/internal/failpoint"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// traces are the words that a binary with failpoints holds: the functions and
// variables of the package, its variable of the environment, and its names.
func traces(t *testing.T, binary string) (found []string) {
	t.Helper()
	symbols, err := exec.CommandContext(t.Context(), harness.Go(), "tool", "nm", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(symbols, []byte("sidecall/internal/failpoint.")) {
		found = append(found, "symbols")
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	words := []string{failpoint.Env, "sidecall/internal/failpoint"}
	for _, name := range failpoint.Names() {
		words = append(words, string(name))
	}
	for _, word := range words {
		if bytes.Contains(text, []byte(word)) {
			found = append(found, word)
		}
	}
	return found
}

// The release build pays nothing for the failpoints: nothing of them is left in
// it. The build for the proofs has them all, so that the look is known to find.
func TestReleaseBuildHasNoFailpoints(t *testing.T) {
	t.Parallel()
	release, proofs := traces(t, harness.ReleaseBinary(t)), traces(t, harness.FailpointBinary(t))
	// Names that the linker cuts into its string table are there byte for byte.
	if want := 3 + len(failpoint.Names()); len(proofs) != want {
		t.Errorf("the look at the build with failpoints finds %v, want %d", proofs, want)
	}
	for _, trace := range release {
		t.Errorf("the release build holds %s", trace)
	}
	proof.Report(t, proof.Row{
		Fault: "failpoints in the release build", Runs: 1, Violations: len(release),
		Figure: fmt.Sprintf("0 of %d traces that the build for the proofs has", len(proofs)),
	})
}

// A fault that is misspelt ends the process at start.
func TestMisspeltFailpoint(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	for fault, says := range map[string]string{
		"claim.one=kill": `no failpoint is called`,
		"claim.won=kil":  `no action is called`,
		"claim.won":      `want name=action`,
	} {
		s := harness.New(t, w.config(embeddedStore, shortLease))
		s.Fail(fault)
		if ready, code := s.Try(); ready || code != 64 || !strings.Contains(s.Log(), says) {
			t.Errorf("%s: started %t, exit code %d, says %s", fault, ready, code, s.Log())
		}
	}
}

// A plain call comes by every failpoint; those of the renewal, when it is slow, and those of a
// decision, when a person is asked first.
func TestEveryFailpointIsReached(t *testing.T) {
	t.Parallel()
	w, tally := startWorld(t), newTally()
	names := failpoint.Names()
	workers(t, len(names), func(t *testing.T, i int) {
		id := string(names[i])
		config := w.config(embeddedStore, shortLease)
		if strings.HasPrefix(id, "decision.") {
			config = w.approving(embeddedStore)
		}
		s := harness.New(t, config)
		s.Fail(id + "=sleep(0)")
		s.Run()
		if strings.HasPrefix(id, "decision.") {
			if res, err := send(t, s, act, id); err != nil || res.GetHold() == nil {
				t.Errorf("%s: %v, %v", id, res, err)
			}
			if err := approve(t, s, id); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		said := fmt.Sprintf("failpoint %s: sleep at hit 1\n", names[i])
		var call errgroup.Group
		held := w.hold(id)
		call.Go(func() error {
			answer, err := tally.sendHeld(t, s, act, id)
			if answer.GetIsError() {
				t.Errorf("%s: %v", id, answer)
			}
			return err
		})
		if !strings.HasPrefix(id, "renewal.") {
			close(held.open)
		}
		harness.WaitFor(t, said, func() bool { return strings.Contains(s.Log(), said) })
		if strings.HasPrefix(id, "renewal.") {
			close(held.open)
		}
		if err := call.Wait(); err != nil {
			t.Error(err)
		}
	})
}
