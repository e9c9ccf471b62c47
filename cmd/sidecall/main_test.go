package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// said is what a command has printed, and its exit code.
type said struct {
	code        int
	out, errOut string
	err         error
}

// command runs a command of the root, as from a shell whose stdin is closed.
func command(t *testing.T, args ...string) said {
	t.Helper()
	return commandOf(t, new(bytes.Buffer), args...)
}

// commandOf is command with something to read.
func commandOf(t *testing.T, stdin io.Reader, args ...string) said {
	t.Helper()
	return commandIn(t.Context(), t, stdin, args...)
}

// commandIn is commandOf until ctx ends.
func commandIn(ctx context.Context, t *testing.T, stdin io.Reader, args ...string) said {
	t.Helper()
	root := newRoot()
	var out, errOut bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errOut)
	root.SetIn(stdin)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	return said{report(cmd, err), out.String(), errOut.String(), err}
}

// The exit code tells a shell what kind of wrong it is; usage is shown when the
// command line is.
func TestExitCodes(t *testing.T) {
	for line, want := range map[string]int{
		"version":                        0,
		"fly":                            exitUsage,
		"version --fast":                 exitUsage,
		"check /not/there":               exitUsage,
		"serve --config /not/there":      exitUsage,
		"serve /not/there":               exitUsage,
		"serve a --config b":             exitUsage,
		"serve a b":                      exitUsage,
		"serve --log-level loud":         exitUsage,
		"tools --format xml":             exitUsage,
		"tools --addr tcp://127.0.0.1:1": exitUnavailable,
	} {
		if got := command(t, strings.Split(line, " ")...); got.code != want || (got.err == nil) != (want == 0) {
			t.Errorf("%s: exit code %d, want %d: %v", line, got.code, want, got.err)
		}
	}
}

// That an answer cannot be printed is no fault of the command line: who made a call, or settled one, has done so.
func TestAnAnswerThatCannotBePrinted(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no device here that is always full:", err)
	}
	t.Cleanup(func() { _ = full.Close() })
	fake := &fakeSidecar{execute: func(context.Context) (*sidecallv1.ExecuteToolResponse, error) {
		return &sidecallv1.ExecuteToolResponse{Content: "fine", Recorded: true}, nil
	}}
	addr, _ := fake.serve(t)
	for _, args := range [][]string{{"version"}, {"call", "pay", "--addr", addr, "--conversation", "c"}, {"report", "--state", filepath.Join(t.TempDir(), "none")}} {
		root := newRoot()
		root.SetOut(full)
		root.SetErr(io.Discard)
		root.SetArgs(args)
		cmd, err := root.ExecuteContextC(t.Context())
		if code := report(cmd, err); code != exitUnavailable || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("%s: exit code %d, %v", args[0], code, err)
		}
	}
}

// An argument too few or too many is told in the words of the command.
func TestArgumentsAreNamed(t *testing.T) {
	for line, says := range map[string]string{
		"check":               "name the config file",
		"check a b":           `"b" is an argument too many: one file`,
		"call":                "name the tool",
		`call pay {"a": 1}`:   `"1}" is an argument too many: put the JSON into single quotes`,
		"ready sidecall.yaml": `"sidecall.yaml" is an argument too many: a config file is named by --config`,
		"resolve toolu_01":    `"toolu_01" is an argument too many: a call is named by --id`,
		"tools all":           `"all" is an argument too many`,
		"serve a b":           `"b" is an argument too many`,
	} {
		if got := command(t, strings.Split(line, " ")...); got.code != exitUsage || got.err == nil || !strings.Contains(got.err.Error(), says) {
			t.Errorf("%s: exit code %d, %v; want %q", line, got.code, got.err, says)
		}
	}
}

// An address that gRPC would take for another one is refused, and told by whoever
// said it.
func TestAddressesAreNamed(t *testing.T) {
	for _, addr := range []string{"localhost:8470", "tcp://localhost", "tcp://", "unix://sidecall.sock", "unix:/sidecall.sock", "unix://"} {
		if got := command(t, "tools", "--addr", addr); got.code != exitUsage || !strings.Contains(got.err.Error(), `--addr "`+addr+`": want tcp://host:port or unix:///path`) {
			t.Errorf("%s: exit code %d, %v", addr, got.code, got.err)
		}
	}
	t.Setenv("SIDECALL_ADDR", "127.0.0.1:8470")
	t.Setenv("SIDECALL_OPERATOR", "./operator.sock")
	for args, says := range map[string]string{
		"tools": `SIDECALL_ADDR "127.0.0.1:8470": want`, "resolve": `SIDECALL_OPERATOR "./operator.sock": want`,
		"tools --addr here": `--addr "here": want`, "resolve --addr here": `--addr "here": want`,
	} {
		if got := command(t, strings.Split(args, " ")...); got.code != exitUsage || !strings.Contains(got.err.Error(), says) {
			t.Errorf("%s: exit code %d, %v", args, got.code, got.err)
		}
	}
}

func TestVersionIsAFlagToo(t *testing.T) {
	flag, command := command(t, "--version"), command(t, "version")
	if flag.code != 0 || flag.out != command.out || !strings.HasPrefix(flag.out, "sidecall ") {
		t.Errorf("--version: %+v, version: %+v", flag, command)
	}
}

// The file to serve is an argument or a flag, and both are the same.
func TestServeNamesTheFileThatItReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(path, []byte("lissten: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	argument, flag := command(t, "serve", path), command(t, "serve", "--config", path)
	if argument.code != exitUsage || argument.err == nil || !strings.Contains(argument.err.Error(), path+":1:1") {
		t.Errorf("as an argument: %+v", argument)
	}
	if flag.code != exitUsage || flag.err == nil || argument.err == nil || flag.err.Error() != argument.err.Error() {
		t.Errorf("as a flag: %+v", flag)
	}
	if both := command(t, "serve", path, "--config", path); both.code != exitUsage || !strings.Contains(both.err.Error(), "name it once") {
		t.Errorf("twice: %+v", both)
	}
}

// A sidecar listens where the command line says.
func TestServeListensWhereItIsTold(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sidecall.yaml")
	if err := os.WriteFile(path, []byte("listen: [unix:///not/there/s]\nstore: {memory: {}}\noperator: \"unix://"+dir+"/o\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for address, says := range map[string]string{
		"localhost:1":          "--listen localhost:1: expected unix:///path or tcp://host:port",
		"tcp://0.0.0.0:1":      "--listen tcp://0.0.0.0:1: ",
		"unix://" + dir + "/o": "this is the operator's address",
	} {
		if got := command(t, "serve", path, "--listen", address); got.code != exitUsage || got.err == nil || !strings.Contains(got.err.Error(), says) {
			t.Errorf("%s: %+v", address, got)
		}
	}
	if got := command(t, "serve", path, "--listen", "tcp://127.0.0.1:1", "--listen", "tcp://127.0.0.1:1"); got.code != exitUsage || !strings.Contains(got.err.Error(), "named twice") {
		t.Errorf("twice: %+v", got)
	}
	// Of its default address there is one on a machine: no admin address is opened.
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:8471")
	if err == nil { // or somebody else has taken it
		defer taken.Close()
	}
	socket := filepath.Join(dir, "agent")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan said, 1)
	go func() { ended <- commandIn(ctx, t, strings.NewReader(""), "serve", path, "--listen", "unix://"+socket) }()
	for {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		select {
		case got := <-ended:
			t.Fatalf("it ended: %+v", got)
		case <-time.After(time.Millisecond):
		}
	}
	stop()
	if got := <-ended; got.code != 0 {
		t.Errorf("%+v", got)
	}
}

func TestServeWithoutAFileSaysHowToNameOne(t *testing.T) {
	t.Chdir(t.TempDir())
	if got := command(t, "serve"); got.code != exitUsage || !strings.HasSuffix(got.err.Error(), "there is no sidecall.yaml here: name the config file, as in sidecall serve FILE") {
		t.Errorf("%+v", got)
	}
}

func TestOneErrorIsOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(path, []byte("lissten: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := command(t, "check", path); got.code != exitUsage || !strings.HasSuffix(got.out, path+": 1 error\n") {
		t.Errorf("%+v", got)
	}
}
