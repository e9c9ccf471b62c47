package process

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSpecRefusesWhatCouldNeverWork(t *testing.T) {
	for name, spec := range map[string]Spec{
		"nothing":          {},
		"an empty name":    {Argv: []string{""}},
		"NUL in argument":  {Argv: []string{"echo", "a\x00b"}},
		"no name":          {Argv: []string{"echo"}, Env: []string{"=x"}},
		"no equals sign":   {Argv: []string{"echo"}, Env: []string{"HOME"}},
		"NUL in the value": {Argv: []string{"echo"}, Env: []string{"A=\x00"}},
	} {
		if _, err := spec.Prepare(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestAnErrorNeverShowsTheValueOfTheEnvironment(t *testing.T) {
	err := Spec{Argv: []string{"x"}, Env: []string{"TOKEN=s3cret\x00"}}.Validate()
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error is %v", err)
	}
}

func TestNothingIsInherited(t *testing.T) {
	t.Setenv("SIDECALL_TEST_SECRET", "s3cret")
	for name, env := range map[string][]string{"nil": nil, "empty": {}, "one": {"A=1"}} {
		cmd, err := Spec{Argv: []string{"env"}, Env: env}.Prepare()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Fields(string(out)); !slices.Equal(got, env) {
			t.Errorf("%s: the program sees %q, want %q", name, got, env)
		}
	}
}

func TestProgramIsFoundInItsOwnPath(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write := func(dir string, mode fs.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(dir, 0o700)
	write(other, 0o600)
	for name, tt := range map[string]struct {
		path string
		want error
	}{
		"found":              {path: "PATH=" + dir},
		"after a denied one": {path: "PATH=" + other + string(os.PathListSeparator) + dir},
		"not executable":     {path: "PATH=" + other, want: fs.ErrPermission},
		"nowhere":            {path: "PATH=/nonexistent", want: exec.ErrNotFound},
		"relative entry":     {path: "PATH=.", want: exec.ErrNotFound},
		"empty":              {path: "PATH=", want: exec.ErrNotFound},
	} {
		cmd, err := Spec{Argv: []string{"tool"}, Env: []string{"PATH=/ignored", tt.path}}.Prepare()
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: error is %v, want %v", name, err, tt.want)
		}
		if err == nil && cmd.Path != filepath.Join(dir, "tool") {
			t.Errorf("%s: found %s", name, cmd.Path)
		}
	}
}

// family starts a shell that starts a grandchild, and returns the read end of a
// pipe that both hold open: it ends when both are gone.
func family(t *testing.T, script string) (*exec.Cmd, *os.File) {
	t.Helper()
	cmd, err := Spec{Argv: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}}.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if line, err := bufio.NewReader(r).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the family says %q, %v", line, err)
	}
	return cmd, r
}

func TestTheWholeGroupEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		grace  time.Duration
		signal string
	}{
		"asked":            {"sleep 1000 & echo ready; wait", time.Hour, "terminated"},
		"made to":          {"trap '' TERM; sleep 1000 & echo ready; wait; wait", time.Millisecond, "killed"},
		"after the leader": {"sleep 1000 & echo ready", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, r := family(t, tt.script)
			asked := make(chan struct{})
			if tt.signal != "" {
				close(asked)
			}
			cut, _ := Wait(cmd, asked, 0, tt.grace) // a signal is an error here
			got, ok := Signalled(cmd)
			if got != tt.signal || ok != (tt.signal != "") || cut != ok {
				t.Errorf("ended by %q, %v, cut %v", got, ok, cut)
			}
			if _, err := bytes.NewBuffer(nil).ReadFrom(r); err != nil {
				t.Errorf("reading until everybody is gone: %v", err)
			}
		})
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		writes []string
		want   string
	}{
		"nothing":          {nil, ""},
		"less":             {[]string{"ab"}, "ab"},
		"exactly":          {[]string{"ab", "cd"}, "abcd"},
		"more, in pieces":  {[]string{"ab", "cd", "e", "f", "g", "h", "ij"}, "…ghij"},
		"more, at once":    {[]string{"abcdefgh"}, "…efgh"},
		"a little, a lot":  {[]string{"ab", "cdefghi"}, "…fghi"},
		"a lot, a little":  {[]string{"abcdefghi", "j"}, "…ghij"},
		"byte after byte":  {strings.Split("abcdefghijklmnopqrstuvwxyz", ""), "…wxyz"},
		"three, then four": {[]string{"abc", "defg"}, "…defg"},
		"half a word":      {[]string{"abc", "def g"}, "…g"},
		"one long word":    {[]string{"abcdefgh", "\n"}, "…fgh\n"},
	} {
		tail := NewTail(4)
		for _, w := range tt.writes {
			if n, err := tail.Write([]byte(w)); n != len(w) || err != nil {
				t.Errorf("%s: Write gives %d, %v", name, n, err)
			}
		}
		if got := tail.String(); got != tt.want {
			t.Errorf("%s: kept %q, want %q", name, got, tt.want)
		}
		if cap(tail.buf) > 64 {
			t.Errorf("%s: keeps %d bytes for 4", name, cap(tail.buf))
		}
	}
}
