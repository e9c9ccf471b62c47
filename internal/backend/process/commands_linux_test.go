package process

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary stand in for a tool that leaves its group, and for
// a sidecar of another user.
func TestMain(m *testing.M) {
	if stray := os.Getenv("SIDECALL_TEST_STRAY"); stray != "" {
		straying(stray)
		return
	}
	if role := os.Getenv("SIDECALL_TEST_HOLD"); role != "" {
		holding(role == "concealed")
		return
	}
	if os.Getenv("SIDECALL_TEST_PERMITTED") != "" {
		os.Stdout.WriteString((&User{UID: 54321, GID: 12345}).Permitted().Error())
		return
	}
	os.Exit(m.Run())
}

// straying starts, each in a session of its own and losing its parent, as many
// generations as asked for; the last one says its number, and sleeps.
func straying(generations string) {
	n, err := strconv.Atoi(generations)
	if err != nil {
		panic(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "SIDECALL_TEST_STRAY="+strconv.Itoa(n-1))
	if n == 1 {
		cmd = exec.Command("sleep", "1000")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if n > 1 {
		cmd.Stdout = os.Stdout
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	if n == 1 {
		os.Stdout.WriteString(strconv.Itoa(cmd.Process.Pid) + "\n")
	}
}

// stray runs a command that leaves a process behind, and returns both. then is
// what the command does after that.
func stray(t *testing.T, generations int, then string) (*exec.Cmd, int) {
	t.Helper()
	script := "SIDECALL_TEST_STRAY=" + strconv.Itoa(generations) + ` "$0"; ` + then
	cmd, err := Spec{Argv: []string{"sh", "-c", script, os.Args[0]}, Env: []string{"PATH=" + os.Getenv("PATH")}}.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	err = Start(cmd, nil)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		_ = syscall.Kill(pid, syscall.SIGKILL) // most are gone
	})
	return cmd, pid
}

// lives reports whether a process is there and has not ended.
func lives(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	return !strings.HasPrefix(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " Z")
}

// ways are the ways of keeping house that this machine has.
func ways(t *testing.T) map[string]func() (func(), error) {
	t.Helper()
	found := map[string]func() (func(), error){"subreaper": keepOrphans}
	if _, err := newCells(); err != nil {
		t.Logf("no cgroup can be written here, so that way is not tried: %v", err)
	} else {
		found["cgroup"] = keepCells
	}
	return found
}

// What leaves the group of its command ends with the command all the same, however
// often it has changed its session and lost its parent.
func TestWhatLeavesTheGroupEndsWithItsCommand(t *testing.T) {
	for way, keepHouse := range ways(t) {
		for name, tt := range map[string]struct {
			generations int
			then        string
			end         func(*exec.Cmd)
		}{
			"a child":              {1, "", nil},
			"a grandchild":         {2, "", nil},
			"five generations":     {5, "", nil},
			"of one that is ended": {2, "sleep 1000", kill},
		} {
			t.Run(way+"/"+name, func(t *testing.T) {
				release, err := keepHouse()
				if err != nil {
					t.Fatal(err)
				}
				defer release()
				cmd, pid := stray(t, tt.generations, tt.then)
				if tt.end != nil {
					tt.end(cmd)
				}
				_ = cmd.Wait() // a signal is an error here
				if !lives(pid) {
					t.Fatal("the stray has ended by itself")
				}
				kill(cmd)
				End(cmd)
				if lives(pid) {
					t.Error("it lives")
				}
			})
		}
	}
}

// Without anybody who keeps house it would live: the tests above test something.
func TestWhatLeavesTheGroupOutlivesItOtherwise(t *testing.T) {
	cmd, pid := stray(t, 2, "")
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	kill(cmd)
	End(cmd)
	if !lives(pid) {
		t.Error("it has ended")
	}
}

// The orphans of one command are not taken for those of another that runs.
func TestAnothersStraysAreLeftAlone(t *testing.T) {
	for way, keepHouse := range ways(t) {
		t.Run(way, func(t *testing.T) {
			release, err := keepHouse()
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			running, its := stray(t, 2, "sleep 1000")
			over, stray := stray(t, 2, "")
			if err := over.Wait(); err != nil {
				t.Fatal(err)
			}
			End(over)
			if lives(stray) || !lives(its) {
				t.Errorf("the one that is over has its stray: %v; the one that runs: %v", lives(stray), lives(its))
			}
			kill(running)
			_ = running.Wait() // killed
			End(running)
			if lives(its) {
				t.Error("it outlives its command")
			}
		})
	}
}

// Orphans that end by themselves are waited for, and nobody else's end is taken:
// not that of a command, whatever comes of it.
func TestOrphansAreReapedAndCommandsAreNot(t *testing.T) {
	release, err := keepOrphans()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	running, orphan := stray(t, 2, "sleep 1000")
	if err := syscall.Kill(orphan, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			cmd, err := Spec{Argv: []string{"sh", "-c", "(true &); exit " + strconv.Itoa(i)}, Env: []string{"PATH=" + os.Getenv("PATH")}}.Prepare()
			if err == nil {
				err = Start(cmd, nil)
			}
			if err != nil {
				t.Error(err)
				return
			}
			err = cmd.Wait()
			var exit *exec.ExitError
			if i > 0 && !errors.As(err, &exit) || i == 0 && err != nil || cmd.ProcessState.ExitCode() != i {
				t.Errorf("%d ended with %v", i, err)
			}
			End(cmd)
		})
	}
	all.Wait()
	// Waited for, its number is nobody's.
	for deadline := time.Now().Add(time.Minute); syscall.Kill(orphan, 0) == nil; {
		if time.Now().After(deadline) {
			t.Fatal("an orphan that has ended is not waited for")
		}
		time.Sleep(10 * time.Millisecond)
	}
	kill(running)
	_ = running.Wait() // killed
	End(running)
	if left, err := children(); err != nil || len(left) != 0 {
		t.Errorf("children are left: %v, %v", left, err)
	}
}

// The mark of a command is not what this process keeps.
func TestTheMarkIsTheCommandsAlone(t *testing.T) {
	before, _ := markOf(os.Getpid())
	release, err := keepOrphans()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	cmd, err := Spec{Argv: []string{"cat"}}.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	stdin, w := io.Pipe()
	cmd.Stdin = stdin
	if err := Start(cmd, nil); err != nil {
		t.Fatal(err)
	}
	mark, ok := markOf(cmd.Process.Pid)
	if after, _ := markOf(os.Getpid()); after != before || !ok || mark == before {
		t.Errorf("this process had %d and has %d, the command %d, %v", before, after, mark, ok)
	}
	w.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	End(cmd)
}

func TestTheCgroupIsFoundAmongTheMounts(t *testing.T) {
	const hybrid = "30 24 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 none rw,nsdelegate\n"
	for name, tt := range map[string]struct{ mounts, path, want string }{
		"whole":          {hybrid, "/system.slice/s.service", "/sys/fs/cgroup/unified/system.slice/s.service"},
		"root":           {hybrid, "/", "/sys/fs/cgroup/unified"},
		"a part":         {"30 24 0:26 /docker/abc /cg rw - cgroup2 cgroup rw\n", "/docker/abc/x", "/cg/x"},
		"another part":   {"30 24 0:26 /docker/abc /cg rw - cgroup2 cgroup rw\n", "/docker/abd", ""},
		"version 1 only": {"30 24 0:26 / /cg rw - cgroup none rw,pids\n", "/", ""},
		"nothing":        {"", "/", ""},
	} {
		got, err := cgroupDir(tt.mounts, tt.path)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tt.want)
		}
	}
}

// A process that was killed leaves its cells behind, and another gets its number.
func TestCellsOfAnEarlierProcessAreInNobodysWay(t *testing.T) {
	c, err := newCells()
	if err != nil {
		t.Skip("cells cannot be made here:", err)
	}
	own := &cells{dir: c.dir + "-again"}
	for _, name := range []string{"", "0", "1"} {
		dir := filepath.Join(own.dir, name)
		if err := os.Mkdir(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Rmdir(dir) })
	}
	made, started, err := own.expect(&exec.Cmd{Path: "/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	started(errors.New("it is not"))
	if filepath.Base(made.dir) != "2" {
		t.Errorf("the cell is %s", made.dir)
	}
}

// Whether a command may still start is asked when nothing is waited for any more: what it is asked for may
// have ended while others were started.
func TestTheRightToStartIsAskedLast(t *testing.T) {
	_, release, err := KeepHouse()
	if err != nil {
		t.Skip(err)
	}
	defer release()
	h := ours.Load()
	for _, may := range []bool{true, false} {
		cmd, err := Spec{Argv: []string{"true"}, Env: []string{"PATH=" + os.Getenv("PATH")}}.Prepare()
		if err != nil {
			t.Fatal(err)
		}
		err = Start(cmd, func() bool {
			if h.mu.TryLock() {
				h.mu.Unlock()
				t.Error("it is asked before the house is free")
			}
			return may
		})
		if (err == nil) != may || (cmd.Process != nil) != may {
			t.Errorf("may it: %t, and it started: %v, %v", may, cmd.Process, err)
		}
		if may {
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			End(cmd)
		}
	}
}
