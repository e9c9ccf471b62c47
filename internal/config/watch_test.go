package config

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// watched is a config in a directory, and the file of its secret, which have been read.
type watched struct {
	*Watch

	t           *testing.T
	dir         string
	file, token string
	tick        time.Duration
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	dir := t.TempDir()
	w := &watched{t: t, dir: dir, file: filepath.Join(dir, "sidecall.yaml"), token: filepath.Join(dir, "token")}
	w.Watch = NewWatch(w.file)
	w.write(w.token, "first")
	w.write(w.file, w.text("10"))
	if _, err := w.Load(); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *watched) text(most string) string {
	return "store: {memory: {}}\nlimits: {max_in_flight: " + most + "}\n" +
		"backends: {web: {http: {base_url: \"http://example.com\", headers: {Authorization: \"${file:" + w.token + "}\"}}}}\n"
}

// write writes over a file, at another time than before, as any two writes of people
// and programs are.
func (w *watched) write(path, text string) {
	w.t.Helper()
	w.tick += time.Second
	at := time.Unix(1_700_000_000, 0).Add(w.tick)
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, at, at)); err != nil {
		w.t.Fatal(err)
	}
}

// looks is what so many looks say.
func (w *watched) looks(n int) string {
	var said strings.Builder
	for range n {
		if w.Changed() {
			said.WriteByte('!')
		} else {
			said.WriteByte('.')
		}
	}
	return said.String()
}

func (w *watched) want(what, want string) {
	w.t.Helper()
	if got := w.looks(len(want)); got != want {
		w.t.Errorf("%s: looks say %s, want %s", what, got, want)
	}
}

func (w *watched) token1() string {
	w.t.Helper()
	c, err := w.Load()
	if err != nil {
		w.t.Fatal(err)
	}
	return c.Backends["web"].HTTP.Headers["Authorization"].Reveal()
}

func TestAChangeIsToldOnceItStandsStill(t *testing.T) {
	w := newWatched(t)
	w.want("nothing has changed", "....")
	w.write(w.file, w.text("11"))
	w.want("the file was written over", ".!!")
	if _, err := w.Load(); err != nil {
		t.Fatal(err)
	}
	w.want("it was read", "....")
	w.write(w.file, w.text("1")[:20])
	w.want("half of it was written", ".")
	w.write(w.file, w.text("12"))
	w.want("and then the whole", ".!")
	w.write(w.file, w.text("11"))
	w.want("it is as it was", "....")
	w.write(w.file, w.text("11"))
	w.want("it was written over with the same", "....")
}

func TestASecretsFileIsPartOfTheConfig(t *testing.T) {
	w := newWatched(t)
	w.write(w.token, "second")
	w.want("a secret changed", ".!")
	if got := w.token1(); got != "second" {
		t.Errorf("it is %q", got)
	}
	if err := os.Remove(w.token); err != nil {
		t.Fatal(err)
	}
	w.want("the secret is gone", ".!")
	if _, err := w.Load(); err == nil || !strings.Contains(err.Error(), "sidecall.yaml:3:") {
		t.Errorf("it was read as %v", err)
	}
	w.want("that was told", "...")
	w.write(w.token, "third")
	w.want("the secret is back", ".!")
	if got := w.token1(); got != "third" {
		t.Errorf("it is %q", got)
	}
}

// A ConfigMap or a Secret is a directory of links through one link, which is replaced:
// files of the same size and time, as an archive or a build may have them.
func TestALinkThatLeadsElsewhereIsAChange(t *testing.T) {
	w := newWatched(t)
	for n, value := range []string{"aaaa", "bbbb"} {
		version := filepath.Join(w.dir, "v"+value)
		if err := os.Mkdir(version, 0o700); err != nil {
			t.Fatal(err)
		}
		w.tick = time.Hour
		w.write(filepath.Join(version, "token"), value)
		link := filepath.Join(w.dir, "..data")
		if err := errors.Join(os.Symlink(version, link+"_tmp"), os.Rename(link+"_tmp", link)); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			if err := errors.Join(os.Remove(w.token), os.Symlink(filepath.Join("..data", "token"), w.token)); err != nil {
				t.Fatal(err)
			}
		}
		w.want("the link leads to "+value, ".!")
		if got := w.token1(); got != value {
			t.Errorf("it is %q, want %q", got, value)
		}
		w.want("that was read", "...")
	}
}

func TestABadFileIsToldOnce(t *testing.T) {
	w := newWatched(t)
	w.write(w.file, "limits: {max_in_flight: none}")
	w.want("it is wrong now", ".!")
	if _, err := w.Load(); err == nil {
		t.Fatal("it was taken")
	}
	w.want("that was told", "...")
	w.write(w.file, "") // as somebody leaves it whose disk is full
	w.want("it is empty", ".!")
	if _, err := w.Load(); err == nil || !strings.Contains(err.Error(), "sidecall.yaml:1:1: the file is empty") {
		t.Fatalf("it was read as %v", err)
	}
	if err := os.Remove(w.file); err != nil {
		t.Fatal(err)
	}
	w.want("it is gone", ".!")
	if _, err := w.Load(); err == nil {
		t.Fatal("it was taken")
	}
	w.want("that was told, too", "...")
	w.write(w.file, w.text("10"))
	w.want("it is back", ".!")
}

// Nothing more comes out of a pipe, and whoever would open it again would wait for ever.
func TestAConfigFromAPipeIsReadOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(path, []byte("store: {memory: {}}"), 0o600) }()
	w := NewWatch(path)
	if _, err := w.Load(); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if w.Changed() {
		t.Error("it is said to have changed")
	}
	if _, err := w.Load(); err == nil || !strings.Contains(err.Error(), "named pipe") {
		t.Errorf("it was read again: %v", err)
	}
}

// A fingerprint tells apart what would be served differently, and nothing else.
func TestTheFingerprintOfAConfig(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	of := func(text, file, variable string) string {
		t.Helper()
		t.Setenv("SIDECALL_TEST_FINGERPRINT", variable)
		path := filepath.Join(dir, rand.Text())
		for name, content := range map[string]string{path: text, secret: file} {
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		w := NewWatch(path)
		c, err := w.Load()
		if err != nil {
			t.Fatal(err)
		}
		return c.Fingerprint
	}
	config := "instance: \"${env:SIDECALL_TEST_FINGERPRINT}${file:" + secret + "}\"\n"
	one := of(config, "f", "v")
	if again := of(config, "f", "v"); again != one {
		t.Error("the same is told apart")
	}
	for name, other := range map[string]string{"text": of(config+"#\n", "f", "v"), "file": of(config, "g", "v"), "variable": of(config, "f", "w")} {
		if other == one {
			t.Errorf("another %s is not told apart", name)
		}
	}
	// What a command is passed is whose rights it has, and the directory which program it is.
	commands := "backends: {sh: {exec: {env: [SIDECALL_TEST_FINGERPRINT]}}, m: {mcp: {command: [x], env: [SIDECALL_TEST_FINGERPRINT]}}}\n"
	one = of(commands, "f", "v")
	if other := of(commands, "f", "w"); other == one {
		t.Error("another variable of a command is not told apart")
	}
	t.Setenv("SIDECALL_DIR", t.TempDir())
	if other := of(commands, "f", "v"); other == one {
		t.Error("another directory is not told apart")
	}
}
