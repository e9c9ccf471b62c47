//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/transcript"
)

// What a command can do to the sidecar that has started it, as the same user: not
// read its environment, and not leave anything running behind its back. The
// sidecar runs as nobody here when the test runs as root, who could read it all.
func TestACommandNeitherReadsTheSidecarNorOutlivesItsCall(t *testing.T) {
	dir := openDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	copyBinary(t, dir)
	socket := "unix://" + at("s.sock")
	config := fmt.Sprintf(`
listen: [%q]
admin: off
store: {embedded: {path: %q}}
backends:
  sh: {exec: {env: [PATH]}}
tools:
  look: {backend: sh, effect: read_only, exec: {argv: [sh, -c, "tr '\\0' '\\n' </proc/$PPID/environ 2>&1; echo looked"]}}
  stray: {backend: sh, effect: read_only, exec: {argv: [sh, -c, "setsid sh -c 'setsid sleep 1000 >/dev/null 2>&1 & echo $!'"]}}
`, socket, at("s.db"))
	if err := os.WriteFile(at("c.yaml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), at("sidecall"), "serve", "--config", at("c.yaml"), "--log-level", "debug")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "E2E_SECRET=" + envSecret}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		if err := errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, 65534, 65534)); err != nil {
			t.Fatal(err)
		}
	}
	log := &transcript.Transcript{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("it ended with %v:\n%s", err, log)
		}
	})
	harness.WaitFor(t, "the sidecar to answer", func() bool {
		return exec.CommandContext(t.Context(), at("sidecall"), "tools", "--addr", socket).Run() == nil
	})
	call := func(tool string) string {
		t.Helper()
		said, err := exec.CommandContext(t.Context(), at("sidecall"), "call", tool, "{}", "--addr", socket, "--conversation", "c", "--id", tool, "--json").Output()
		var answer struct{ Content string }
		if err == nil {
			err = json.Unmarshal(said, &answer)
		}
		if err != nil {
			t.Fatalf("%s: %v: %s\n%s", tool, err, said, log)
		}
		return answer.Content
	}
	if seen := call("look"); !strings.Contains(seen, "looked") || strings.Contains(seen, envSecret) || strings.Contains(seen, "E2E_SECRET") {
		t.Errorf("the command reads %q", seen)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(call("stray")))
	if err != nil {
		t.Fatal(err)
	}
	// Nobody waits for that end but the sidecar, so it may come after the answer.
	harness.WaitFor(t, "the stray to end", func() bool { return syscall.Kill(pid, 0) != nil })
}
