package process

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// holding is a process with a secret in its environment, which starts a program
// that looks for it.
func holding(concealed bool) {
	if concealed {
		if err := Conceal(); err != nil {
			panic(err)
		}
	}
	const looks = `for what in environ maps; do
		if cat "/proc/$PPID/$what" >/dev/null 2>&1; then echo "read $what"; fi
	done
	if readlink "/proc/$PPID/fd/3" >/dev/null; then echo "read fd/3"; fi
	tr '\0' '\n' <"/proc/$PPID/environ"
	if readlink "/proc/$$/fd/3" >/dev/null; then echo "has 3"; fi
	tr '\0' '\n' <"/proc/$$/environ" | sed -n 's/^OWN=/readable, its /p'
	echo done`
	cmd, err := Spec{Argv: []string{"sh", "-c", looks}, Env: []string{"PATH=" + os.Getenv("PATH"), "OWN=1"}}.Prepare()
	if err != nil {
		panic(err)
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := Start(cmd, nil); err != nil {
		panic(err)
	}
	if err := cmd.Wait(); err != nil {
		panic(err)
	}
}

// A program that a sidecar has started, as the same user, reads neither its
// environment nor its memory nor its files, and inherits nothing that it had open.
func TestAChildReadsNothingOfAProcessThatConcealsItself(t *testing.T) {
	for role, concealed := range map[string]bool{"open": false, "concealed": true} {
		r, w, err := os.Pipe() // stays open in the process: number 3
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{"SIDECALL_TEST_HOLD=" + role, "SECRET=s3cr3t", "PATH=" + os.Getenv("PATH")}
		cmd.ExtraFiles = []*os.File{w}
		if os.Getuid() == 0 { // who may read everything
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		said, err := cmd.Output()
		r.Close()
		w.Close()
		if err != nil {
			t.Fatalf("%s: %v\n%s", role, err, &complaints)
		}
		text := string(said)
		if !strings.Contains(text, "done") {
			t.Fatalf("%s: it says %q", role, text)
		}
		for _, found := range []string{"s3cr3t", "read environ", "read maps", "read fd/3", "has 3"} {
			if strings.Contains(text, found) == concealed {
				t.Errorf("%s: %q in %q", role, found, text)
			}
		}
		if !strings.Contains(text, "readable, its 1") {
			t.Errorf("%s: what is started is hidden too: %q\n%s", role, text, &complaints)
		}
	}
}
