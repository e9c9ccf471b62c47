package app

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What holds the results of calls is made for the user of the sidecar alone,
// whatever the umask.
func TestFilesAreTheUsersAlone(t *testing.T) {
	dir := t.TempDir()
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	s := started(t, parsed(t, fmt.Sprintf(`
listen: ["unix://%[1]s/s.sock"]
admin: off
operator: unix://%[1]s/operator.sock
store: {embedded: {path: %[1]s/s.db}}
journal: {enabled: true, path: %[1]s/s.journal}
`, dir)), quiet())
	defer func() {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for name, want := range map[string]os.FileMode{
		"s.sock": 0o600, "operator.sock": 0o600, "s.db": 0o600, "s.journal": 0o700, "s.journal/lock": 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}
