package config

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What a ${file:...} names is read whole at the start: what has no end, or only
// begins when somebody writes, would hold the start up for ever.
func TestOnlyRegularFilesAreReadAsSecrets(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := syscall.Mkfifo(in("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(in("fifo"), in("link")); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", in("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	endless, err := os.Create(in("endless"))
	if err != nil {
		t.Fatal(err)
	}
	// As long as a file can say it is, and nothing of it on the disk.
	if err := errors.Join(endless.Truncate(1<<40), endless.Close()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(in("empty"), nil, 0o600), os.WriteFile(in("blank"), []byte("\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		in("empty"):   "it is empty",
		in("blank"):   "it is empty",
		in("fifo"):    "it is a named pipe: expected a regular file",
		in("link"):    "it is a named pipe: expected a regular file",
		in("socket"):  "it is a socket: expected a regular file",
		dir:           "it is a directory: expected a regular file",
		"/dev/zero":   "it is a device: expected a regular file",
		"/dev/null":   "it is a device: expected a regular file",
		in("endless"): "the file is too large: more than 1MiB",
		in("missing"): "no such file or directory",
	} {
		file := in("config.yaml")
		text := "store:\n  redis: {addrs: [\"a:1\"], password: \"${file:" + path + "}\"}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(file)
		if err == nil || !strings.HasPrefix(err.Error(), file+":2:37: store.redis.password: cannot read the file ") ||
			!strings.HasSuffix(err.Error(), ": "+want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

// A secret of Kubernetes is a link to a link, so that all files of it change at
// once.
func TestASecretOfKubernetesIsRead(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.Mkdir(in("..2026_11_22"), 0o700),
		os.WriteFile(in("..2026_11_22/password"), []byte("pw\n"), 0o400),
		os.Symlink("..2026_11_22", in("..data")),
		os.Symlink("..data/password", in("password")),
	); err != nil {
		t.Fatal(err)
	}
	c, err := Parse("c.yaml", []byte(`store: {redis: {addrs: ["a:1"], password: "${file:`+in("password")+`}"}}`), System())
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Store.Redis.Password.Reveal(); got != "pw" {
		t.Errorf("read %q", got)
	}
}
