//go:build e2e

package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// nobody is a user that owns nothing: of a number that no system gives out by
// itself.
const nobody = 65_534

// asNobody runs the command as another user of the machine.
func asNobody(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	// The binary stands where only its owner may be; this user gets one of its own.
	binary := copyBinary(t, openDir(t))
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, out)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// copyBinary copies the binary into a directory. Another process does that: one
// that this process has open for writing while a test starts something is busy.
func copyBinary(t *testing.T, dir string) string {
	t.Helper()
	binary := filepath.Join(dir, "sidecall")
	if said, err := exec.CommandContext(t.Context(), "cp", harness.Binary(t), binary).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return binary
}

// nameOfUser is how the system calls a user.
func nameOfUser(t *testing.T, uid int) string {
	t.Helper()
	known, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return "uid " + strconv.Itoa(uid)
	}
	return known.Username
}

// openDir is a directory that every user may enter.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sc") //nolint:usetesting // another user has no way into t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Another local user who reaches the sidecar's port says of a payment that it has
// not run, under a made-up name, and sends it again: it would run twice.
func TestAnotherUserSettlesNothing(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can run a command as another user")
	}
	up := startTill(t)
	// In a directory that others may enter it is the socket's own mode that counts.
	socket := filepath.Join(openDir(t), "op.sock")
	s := harness.Start(t, "operator: unix://"+socket+"\n"+up.tools(""))
	up.Script("/act", upstream.CloseAfter(), upstream.Echo())
	wantError(t, s.Call(callOf("order-1")), "OUTCOME_UNKNOWN")

	settle := []string{"--id", "order-1", "--as", "not_run", "--reason", "trust me", "--by", "the auditor", "--yes"}
	for address, want := range map[string]string{
		"tcp://" + s.Addr:  "OperatorService is not served to agents",
		"unix://" + socket: "may not open",
	} {
		code, said := asNobody(t, append([]string{"resolve", "--addr", address}, settle...)...)
		if code == 0 || !strings.Contains(said, want) {
			t.Errorf("%s: exit code %d: %s", address, code, said)
		}
		if code, said := asNobody(t, "resolve", "--addr", address); code == 0 || strings.Contains(said, "order-1") {
			t.Errorf("%s: it lists: exit code %d: %s", address, code, said)
		}
	}
	wantError(t, s.Call(callOf("order-1")), "OUTCOME_UNKNOWN")
	if n := up.Ledger.Executions("order-1"); n != 1 {
		t.Errorf("%d executions, want 1", n)
	}

	// Whom the owner lets in is named by the system, whatever he calls himself.
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	if code, said := asNobody(t, append([]string{"resolve", "--addr", "unix://" + socket, "--id", "order-1", "--as", "done"}, settle[4:]...)...); code != 0 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	made := executionOf(t, s, "order-1").GetResult().GetResolution()
	if made.GetBy() != nameOfUser(t, nobody) || made.GetClaimedBy() != "the auditor" {
		t.Errorf("the record says %v", made)
	}
	says(t, s.Log(), `"by":"`+made.GetBy()+`"`, `"claimed_by":"the auditor"`)
}

// The agents' socket and the operators' are for the sidecar's user alone.
func TestTheOperatorsSocketIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, startTill(t).tools(""))
	path := strings.TrimPrefix(s.Operator, "unix://")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Mode()&os.ModeSocket == 0 {
		t.Errorf("%v, %v", info, err)
	}
	code, _, stderr := harness.CLI(t, "resolve", "--config", s.Config)
	if code != 0 || !strings.Contains(stderr, "no call is of unknown outcome") {
		t.Errorf("found by its config: exit code %d: %s", code, stderr)
	}
	cmd := exec.CommandContext(context.Background(), harness.Binary(t), "resolve")
	cmd.Dir = s.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("found by the config in the working directory: %v: %s", err, out)
	}
	s.Stop()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}
