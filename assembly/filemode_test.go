package assembly

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
	for _, name := range []string{"s.sock", "operator.sock", "s.db", "s.journal"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}
