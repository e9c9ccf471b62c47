package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sidecall/sidecall/cmd/sidecall/share"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// program is one that has launched a sidecar.
type program struct {
	*testing.T

	stdin *io.PipeWriter
	lines *bufio.Scanner
	ended chan said
}

// launches is a program that has a sidecar started for it.
func launches(t *testing.T, config string, flags ...string) *program {
	t.Helper()
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	p := &program{t, stdin, bufio.NewScanner(stdout), make(chan said, 1)}
	root := newRoot()
	root.SetOut(out)
	root.SetErr(io.Discard)
	root.SetIn(in)
	root.SetArgs(append([]string{"serve", "--config", config, "--launched"}, flags...))
	go func() {
		cmd, err := root.ExecuteContextC(t.Context())
		out.Close()
		p.ended <- said{code: report(cmd, err), err: err}
	}()
	t.Cleanup(func() { stdin.Close() })
	return p
}

type told struct {
	Listen  string
	Missing map[string]string
	Stays   bool
}

// hears is the next thing that the program is told.
func (p *program) hears() (what told) {
	p.Helper()
	if !p.lines.Scan() {
		p.Fatalf("it is told nothing: %+v", <-p.ended)
	}
	if err := json.Unmarshal(p.lines.Bytes(), &what); err != nil {
		p.Fatal(err)
	}
	return what
}

// ends is the end of the program, and then of its process. What that still says is read: of
// a pipe that was filled it would wait.
func (p *program) ends() said {
	p.Helper()
	p.stdin.Close()
	go func() {
		for p.lines.Scan() {
		}
	}()
	return <-p.ended
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sidecall.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Programs that launch a sidecar with one config on one store have one, until the last of
// them has gone.
func TestLaunchedSidecarsOfOneStoreAreOne(t *testing.T) {
	t.Chdir(t.TempDir())
	config := configFile(t, "operator: off\n")
	first := launches(t, config)
	at := first.hears()
	second := launches(t, config)
	if got := second.hears(); got.Listen != at.Listen || at.Listen == "" {
		t.Errorf("they are told %q and %q", at.Listen, got.Listen)
	}
	first.stdin.Close()
	if got := first.hears(); !got.Stays {
		t.Errorf("the first is told %+v", got)
	}
	// Which is there for the second, and for whoever comes now.
	third := launches(t, config)
	if got := third.hears(); got.Listen != at.Listen {
		t.Errorf("the third is told %+v", got)
	}
	for _, p := range []*program{second, third, first} {
		if got := p.ends(); got.code != 0 {
			t.Errorf("%+v", got)
		}
	}
	if _, err := os.Stat(filepath.Dir(strings.TrimPrefix(at.Listen, "unix://"))); !os.IsNotExist(err) {
		t.Errorf("its directory is left: %v", err)
	}
}

// One config for one store; what a reference leads to is of it.
func TestALaunchWithAnotherConfigIsToldSo(t *testing.T) {
	t.Setenv("SIDECALL_DIR", t.TempDir()) // one store for both files
	config := configFile(t, "operator: off\ninstance: \"${env:SIDECALL_TEST_INSTANCE}\"\n")
	t.Setenv("SIDECALL_TEST_INSTANCE", "a")
	first := launches(t, config)
	first.hears()
	t.Setenv("SIDECALL_TEST_INSTANCE", "b")
	// What the first has read is in force; in this process it would read the same now.
	second := launches(t, configFile(t, "operator: off\n"))
	if got := <-second.ended; got.code != exitUnavailable || !strings.Contains(got.err.Error(), "with another config") {
		t.Errorf("%+v", got)
	}
	first.ends()
}

// What counts is the config in force: a file that has changed is taken over first, and one
// that is refused is another config, however the file reads.
func TestALaunchWithWhatTheFileSaysNow(t *testing.T) {
	t.Setenv("SIDECALL_DIR", t.TempDir())
	config := configFile(t, "operator: off\n")
	first := launches(t, config)
	at := first.hears()
	write(t, config, "operator: off\nbackends: {sh: {exec: {}}}\ntools: {now: {backend: sh, description: Now., exec: {argv: [date]}, input_schema: {type: object}}}\n")
	second := launches(t, config)
	if got := second.hears(); got.Listen != at.Listen {
		t.Errorf("it is told %+v", got)
	}
	if got := command(t, "tools", "--addr", at.Listen); !strings.Contains(got.out, "now ") {
		t.Errorf("the tool of its config is not there: %+v", got)
	}
	write(t, config, "operator: off\ninstance: another\n") // which needs a restart
	third := launches(t, config)
	if got := <-third.ended; got.code != exitUnavailable || !strings.Contains(got.err.Error(), "it cannot take over: ") || !strings.Contains(got.err.Error(), "instance: this is not") {
		t.Errorf("%+v", got)
	}
	fourth := launches(t, configFile(t, "operator: off\n"))
	if got := <-fourth.ended; got.code != exitUnavailable || strings.Contains(got.err.Error(), "its file has changed") {
		t.Errorf("%+v", got)
	}
	for _, p := range []*program{second, first} {
		p.ends()
	}
}

// A guest whose file has changed since it has read it has what the file says now: the host
// may have that already.
func TestALaunchWhoseFileChangesWhileItWaits(t *testing.T) {
	t.Setenv("SIDECALL_DIR", t.TempDir())
	dir := t.TempDir()
	host, _, err := share.Enter(t.Context(), filepath.Join(os.Getenv("SIDECALL_DIR"), "sidecall.db"), harness.ShortDir(t), "", func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "sidecall.yaml")
	write(t, path, "operator: off\n")
	const now = "operator: off\nlimits: {max_batch: 7}\n"
	go host.Receive(func(_ context.Context, guest string) (share.Answer, error) {
		if guest == identityOf(t, path) && read(t, path) == now {
			return share.Answer{Listen: "unix:///now"}, nil
		}
		write(t, path, now)
		return share.Answer{}, share.ErrOther
	})
	p := launches(t, path)
	if got := p.hears(); got.Listen != "unix:///now" {
		t.Errorf("it is told %+v", got)
	}
	p.ends()
}

// A file that is as it was before the change took over is not what a guest has that has read
// the change: it need not wait for that.
func TestALaunchWithWhatTheFileSaidForAMoment(t *testing.T) {
	t.Setenv("SIDECALL_DIR", t.TempDir())
	path := configFile(t, "operator: off\n")
	first := launches(t, path)
	first.hears()
	write(t, path, "operator: off\ninstance: another\n") // nothing that the host could take over
	asks := func(identity string) chan error {
		told := make(chan error, 1)
		go func() {
			_, _, err := share.Enter(t.Context(), filepath.Join(os.Getenv("SIDECALL_DIR"), "sidecall.db"), "", identity, func(error) {})
			told <- err
		}()
		return told
	}
	moment := asks(identityOf(t, path))
	<-asks("another") // by then the host has heard of the first, most likely
	write(t, path, "operator: off\n")
	if err := <-moment; !errors.Is(err, share.ErrOther) {
		t.Errorf("it is told %v", err)
	}
	first.ends()
}

// A config that came through a pipe is not read again, of which nobody would know the end.
func TestALaunchBesideAConfigFromAPipe(t *testing.T) {
	t.Setenv("SIDECALL_DIR", t.TempDir())
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	through := func() *program {
		p := launches(t, pipe, "--start-timeout", "5s")
		write(t, pipe, "operator: off\n")
		return p
	}
	first := through()
	at := first.hears()
	second := through()
	if got := second.hears(); got.Listen != at.Listen {
		t.Errorf("it is told %+v", got)
	}
	third := launches(t, configFile(t, "operator: off\ninstance: another\n"), "--start-timeout", "5s")
	if got := <-third.ended; got.code != exitUnavailable || !errors.Is(got.err, share.ErrOther) {
		t.Errorf("%+v", got)
	}
	second.ends()
	first.ends()
}

// identityOf is what a guest has that reads a file now.
func identityOf(t *testing.T, path string) string {
	t.Helper()
	cfg, err := config.NewWatch(path).Load()
	if err != nil {
		t.Error(err)
		return ""
	}
	return identity(cfg, buildVersion().Version)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// A backend that is down does not keep a program from starting: it is named when the start
// has had its time.
func TestALaunchNamesTheBackendsThatAreMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	p := launches(t, configFile(t, "store: {memory: {}}\nbackends: {files: {mcp: {url: \"http://"+nobody(t)+"/mcp\", allow_private: true}}}\n"), "--start-timeout", "300ms")
	if got := p.hears(); len(got.Missing) != 1 || got.Missing["files"] == "" || got.Listen == "" {
		t.Errorf("%+v", got)
	}
	if got := p.ends(); got.code != 0 {
		t.Errorf("%+v", got)
	}
}

// nobody is an address at which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// Why it does not start is its error, and its directory goes with it.
func TestALaunchThatFails(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	if got := <-launches(t, configFile(t, "lissten: []\n")).ended; got.code != exitUsage || !strings.Contains(got.err.Error(), "lissten") {
		t.Errorf("%+v", got)
	}
	if got := command(t, "serve", "x.yaml", "--launched", "--listen", "tcp://127.0.0.1:1"); got.code != exitUsage {
		t.Errorf("%+v", got)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
