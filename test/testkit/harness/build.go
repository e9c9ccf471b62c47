package harness

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// RaceEnv names the environment variable that, when it is not empty, has the
// sidecar built with the race detector. One that finds a race ends at once, with
// an exit code that no test takes for a good end.
const RaceEnv = "SIDECALL_E2E_RACE"

// raceExitCode is how a sidecar ends that has found a race.
const raceExitCode = 66

// raceOptions have the first race end the process, and no other process wait
// for further ones.
var raceOptions = fmt.Sprintf("GORACE=halt_on_error=1 exitcode=%d atexit_sleep_ms=0", raceExitCode)

// Go is the go command that the Makefile was told to use.
func Go() string { return cmp.Or(os.Getenv("GO"), "go") }

// build is a binary that is built when it is first needed.
type build struct {
	name  string
	flags []string // of go build
	// edit is a change of the source that it is built with, by the overlay of the go command.
	edit edit
	// dir is the directory of the program's module, below the root, and pkg its
	// package there; cmd/sidecall of this module where they are empty.
	dir, pkg string
	once     sync.Once
	path     string
	err      error
}

var (
	release            = build{name: "sidecall"}
	withFailpoints     = build{name: "sidecall-failpoint", flags: []string{"-tags", "failpoint"}}
	raceRelease        = build{name: "sidecall-race", flags: []string{"-race"}}
	laterLayout        = build{name: "sidecall-later", edit: edit{"dedupe/layout.go", "OldestLayout, LayoutVersion = 1, 1", "OldestLayout, LayoutVersion = 1, 2"}}
	raceWithFailpoints = build{name: "sidecall-failpoint-race", flags: []string{"-race", "-tags", "failpoint"}}
)

// Binary builds the sidecar once per test process and returns its path, which
// is the same for all processes.
func Binary(tb testing.TB) string {
	tb.Helper()
	if os.Getenv(RaceEnv) != "" {
		return raceRelease.get(tb)
	}
	return release.get(tb)
}

// FailpointBinary is Binary for the build with the tag failpoint.
func FailpointBinary(tb testing.TB) string {
	tb.Helper()
	if os.Getenv(RaceEnv) != "" {
		return raceWithFailpoints.get(tb)
	}
	return withFailpoints.get(tb)
}

// LaterBinary is the build that stands for a later version: it writes records of another
// layout, and reads both.
func LaterBinary(tb testing.TB) string {
	tb.Helper()
	return laterLayout.get(tb)
}

// ReleaseBinary is the build without the race detector, whatever the
// environment says: for looks at the binary, and for figures.
func ReleaseBinary(tb testing.TB) string {
	tb.Helper()
	return release.get(tb)
}

// tools are the builds of Tool, by name, and of Program, by package.
var tools sync.Map

// Tool builds the program of the module tools/NAME, which has go.mod and lock file of
// its own, once per test process, and returns its path.
func Tool(tb testing.TB, name string) string {
	tb.Helper()
	tool, _ := tools.LoadOrStore(name, &build{name: name, dir: filepath.Join("tools", name), pkg: "."})
	return tool.(*build).get(tb)
}

// Program builds a program of a module that go.mod has, by the path of its package, once per test
// process, and returns its path.
func Program(tb testing.TB, pkg string) string {
	tb.Helper()
	program, _ := tools.LoadOrStore(pkg, &build{name: path.Base(pkg), pkg: pkg})
	return program.(*build).get(tb)
}

func (build *build) get(tb testing.TB) string {
	tb.Helper()
	build.once.Do(func() { build.path, build.err = build.make() })
	if build.err != nil {
		tb.Fatal(build.err)
	}
	return build.path
}

// make builds into a directory that stays: the next process finds the binary up
// to date, and none leaves one behind. One process builds at a time.
func (build *build) make() (at string, err error) {
	dir := filepath.Join(Root(), "bin", "e2e")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, build.name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // gives the lock back
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	at = filepath.Join(dir, build.name)
	args := append([]string{"build"}, build.flags...)
	if build.edit != (edit{}) {
		overlay, err := build.edit.overlay(at)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(context.Background(), Go(), append(args, "-o", at, cmp.Or(build.pkg, "./cmd/sidecall"))...)
	cmd.Dir = filepath.Join(Root(), build.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return at, nil
}

// edit is what stands in a file of the module, and what is to stand there.
type edit struct{ file, before, after string }

// overlay writes the edited file and the description of it for the go command, whose path it returns,
// to names that begin with one.
func (e edit) overlay(name string) (string, error) {
	source := filepath.Join(Root(), e.file)
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	if bytes.Count(text, []byte(e.before)) != 1 {
		return "", fmt.Errorf("%s does not have %q once", source, e.before)
	}
	edited, described := name+".source", name+".json" // no file of a package
	if err := os.WriteFile(edited, bytes.Replace(text, []byte(e.before), []byte(e.after), 1), 0o600); err != nil {
		return "", err
	}
	description, err := json.Marshal(map[string]map[string]string{"Replace": {source: edited}})
	if err != nil {
		return "", err
	}
	return described, os.WriteFile(described, description, 0o600)
}

// Root is the directory of the module.
func Root() string { return root() }

// root looks for go.mod in the directory of the process, where the tests of a
// package start, and above it. The place of this file would not tell: a binary
// built with -trimpath does not know that. It is asked for late: a test binary
// may also serve as a tool, which runs anywhere.
var root = sync.OnceValue(func() string {
	started, err := os.Getwd()
	if err != nil {
		panic("harness: " + err.Error())
	}
	for dir := started; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			panic("harness: no go.mod in " + started + " or above it: run this inside the module")
		}
	}
})
