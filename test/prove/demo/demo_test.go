//go:build prove

package demo

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// promised is what the README says that the demo takes at most.
const promised = 15 * time.Second

// What it shows is checked by the end-to-end tests; here it is only timed.
func TestTheDemoTakesNoLongerThanPromised(t *testing.T) {
	binary := harness.ReleaseBinary(t)
	runs, slow := proof.Runs(1, 5), 0
	var longest time.Duration
	for range runs {
		cmd := exec.CommandContext(t.Context(), binary, "demo")
		cmd.Dir = t.TempDir()
		began := time.Now()
		text, err := cmd.CombinedOutput()
		took := time.Since(began)
		if err != nil || strings.Contains(string(text), "BROKEN") {
			t.Fatalf("demo: %v\n%s", err, text)
		}
		if longest = max(longest, took); took > promised {
			slow++
		}
	}
	proof.Report(t, proof.Row{
		Fault: "demo in less than 15 s", Runs: runs, Violations: slow,
		Figure: fmt.Sprintf("the longest took %.1f s", longest.Seconds()),
	})
}
