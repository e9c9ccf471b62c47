package embedded

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/dedupe/storetest"
	"github.com/sidecall/sidecall/tool"
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

// BenchmarkAdmitSettle makes one call per iteration: a claim and a settlement,
// each on the disk before it returns, 32 in flight on two processors.
func BenchmarkAdmitSettle(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "store.db"), Options{})
	result := make([]byte, 600)
	b.SetParallelism(16)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		for pb.Next() {
			req := request(rand.Text(), tool.NonIdempotent)
			if _, err := s.Admit(ctx, req); err != nil {
				b.Error(err)
				return
			}
			end := settlement(req.Key.ID, "")
			end.Result = result
			if _, err := s.Settle(ctx, end); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
