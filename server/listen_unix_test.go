//go:build unix

package server

import (
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/sidecall/sidecall/test/testkit/harness"
)

// Several that listen at a time leave the process the mask for new files that it had.
func TestListeningLeavesTheMaskOfTheProcess(t *testing.T) {
	dir := harness.ShortDir(t)
	before := syscall.Umask(0o022)
	defer syscall.Umask(before)
	for range 50 {
		var all sync.WaitGroup
		for _, name := range []string{"a", "b", "c", "d"} {
			all.Go(func() {
				listener, err := Listen("unix://" + filepath.Join(dir, name))
				if err != nil {
					t.Error(err)
					return
				}
				if err := listener.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	if now := syscall.Umask(0o022); now != 0o022 {
		t.Errorf("the mask is %04o", now)
	}
}
