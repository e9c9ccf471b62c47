//go:build unix

package sidecall_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// What the terminal sends to the program, it does not send to its sidecar, which others may
// use: it is of a session of its own.
func TestASidecarIsNotOfTheTerminalOfItsProgram(t *testing.T) {
	said := filepath.Join(t.TempDir(), "pid")
	client := told(t, `echo $$ >`+said+`; echo '{"listen": "tcp://127.0.0.1:1"}'; cat >/dev/null`)
	text, err := os.ReadFile(said)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("the sidecar %d is of the group %d, %v", pid, group, err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}
