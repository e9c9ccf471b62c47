package embedded

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
)

// crashChild is set, to the path of the store, for a process that is to be
// killed.
const crashChild = "SIDECALL_TEST_CRASH_CHILD"

// runCrashChild makes calls until it is killed.
func runCrashChild(path string) {
	s, err := Open(path, Options{})
	if err == nil {
		err = storetest.Work(s, path+".ledger", 30*time.Second)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestKilledProcessesNeverRunACallTwice(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	storetest.Crash{
		Rounds: 12,
		Ledger: path + ".ledger",
		Command: func() *exec.Cmd {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), crashChild+"="+path)
			return cmd
		},
		Open: func(t testing.TB) dedupe.Store { return open(t, path, Options{}) },
	}.Run(t)
}
