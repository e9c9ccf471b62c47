// Package process starts the programs that backends run, each as the leader of
// a process group of its own, with nothing of the environment but what it is
// given, and ends them as a group.
//
// A group, because what a tool starts (npx starts a shell that starts node) must
// not outlive it, and because a grandchild that keeps an output pipe open would
// keep its reader waiting. What leaves the group is ended too, on Linux, where the
// process keeps house (KeepHouse); Conceal keeps this process's memory,
// environment and open files from all of them.
package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Spec is a program to run.
type Spec struct {
	// Argv is the program and its arguments; there is no shell. A program
	// without a slash is looked up in the PATH of Env, or in Sidecall's own
	// PATH when Env has none. One with a slash that is relative is relative
	// to Dir.
	Argv []string
	// Dir is the working directory; empty means Sidecall's own.
	Dir string
	// Env is the whole environment, as NAME=VALUE.
	Env []string
	// User is whom it runs as; nil means Sidecall's own user. The directory and
	// the program have to be within that user's reach.
	User *User
}

// Validate reports what could never work, whatever is installed.
func (s Spec) Validate() error {
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return errors.New("there is no program to run")
	}
	for _, arg := range s.Argv {
		if strings.ContainsRune(arg, 0) {
			return fmt.Errorf("argument %q contains a NUL byte", arg)
		}
	}
	for _, pair := range s.Env {
		name, _, ok := strings.Cut(pair, "=")
		if !ok || name == "" || strings.ContainsRune(pair, 0) {
			return fmt.Errorf("environment entry %q is not NAME=VALUE", name)
		}
	}
	return nil
}

// Prepare returns the command, not yet started, as the leader of a new group.
// The error wraps exec.ErrNotFound or fs.ErrPermission when there is no such
// program.
func (s Spec) Prepare() (*exec.Cmd, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	path, err := lookPath(s.Argv[0], s.Env)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: path,
		Args: s.Argv,
		Dir:  s.Dir,
		// An empty list, not nil: nil would inherit everything.
		Env: append([]string{}, s.Env...),
	}
	lead(cmd, s.User)
	return cmd, nil
}

// Program returns the path of the program that the spec would run. The error is
// that of Prepare.
func (s Spec) Program() (string, error) {
	if err := s.Validate(); err != nil {
		return "", err
	}
	path, err := lookPath(s.Argv[0], s.Env)
	if err == nil && !filepath.IsAbs(path) {
		path = filepath.Join(s.Dir, path)
	}
	return path, err
}

// lookPath is exec.LookPath with the PATH that the program itself will see, so
// that the same config finds the same program whoever starts Sidecall.
func lookPath(name string, env []string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		return name, nil
	}
	path, ok := "", false
	for _, pair := range env {
		// The last one counts, as in os/exec.
		if value, found := strings.CutPrefix(pair, "PATH="); found {
			path, ok = value, true
		}
	}
	if !ok {
		return exec.LookPath(name)
	}
	denied := false
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			// A relative PATH entry would let a working directory choose
			// the program; exec.LookPath refuses it too.
			continue
		}
		candidate := filepath.Join(dir, name)
		info, err := os.Stat(candidate)
		switch {
		case err != nil || info.IsDir():
		case info.Mode()&0o111 == 0:
			denied = true
		default:
			return candidate, nil
		}
	}
	if denied {
		return "", &exec.Error{Name: name, Err: fs.ErrPermission}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

var errMayNot = errors.New("the command may not be started any more")

// allowed asks whether a command may still be started; where nobody is to be asked it may.
func allowed(may func() bool) error {
	if may != nil && !may() {
		return errMayNot
	}
	return nil
}
