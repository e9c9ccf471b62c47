//go:build prove

package whole

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// tables are tests that are run in part by make test. Cells are the lines of go test
// that say what came of one of their cells: one store with one case, say.
var tables = []struct{ fault, store, pkg, run, cells string }{
	{"conformance on every kind of Redis", "redis", "./internal/store/redisstore", "^TestEveryKindOfRedis$", `(?m)^ {8}--- (\w+): `},
	{"worker, agent or sidecar killed at every step, each with each store and language", "", "./test/e2e/worker", "KilledAtEveryStep$", `(?m)^ {4}--- (\w+): `},
}

func TestTables(t *testing.T) {
	for _, table := range tables {
		t.Run(table.fault, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), harness.Go(), "test", "-tags", "e2e", "-vet=off", "-count=1", "-v",
				"-parallel", "6", "-timeout", "30m", "-run", table.run, table.pkg)
			cmd.Dir = harness.Root()
			cmd.Env = append(os.Environ(), harness.WholeEnv+"=1")
			text, err := cmd.CombinedOutput()
			row := proof.Row{Fault: table.fault, Store: table.store, Figure: "every combination"}
			for _, cell := range regexp.MustCompile(table.cells).FindAllSubmatch(text, -1) {
				row.Runs++
				if string(cell[1]) != "PASS" { // what was skipped was not shown either
					row.Violations++
				}
			}
			if err != nil {
				t.Errorf("go test %s: %v\n%s", table.pkg, err, text)
			}
			proof.Report(t, row)
		})
	}
}
