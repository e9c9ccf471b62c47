//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// newListening is a sidecar, not yet run, whose config also listens on the
// given addresses.
func newListening(t *testing.T, addresses ...string) *harness.Sidecar {
	t.Helper()
	s := harness.New(t, "")
	quoted := fmt.Sprintf("%q", "tcp://"+s.Addr)
	for _, address := range addresses {
		quoted += fmt.Sprintf(", %q", address)
	}
	text := fmt.Sprintf("listen: [%s]\nadmin: %s\n%s", quoted, s.Admin, oneTool("http://127.0.0.1:1"))
	if err := os.WriteFile(s.Config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// refusedStart runs a sidecar that must not start and returns its one sentence
// of why, without the log lines before it.
func refusedStart(t *testing.T, s *harness.Sidecar, wantExit int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, harness.Binary(t), "serve", "--config", s.Config)
	cmd.Dir = s.Dir
	out, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("it started: %v\n%s", err, out)
	}
	if code := cmd.ProcessState.ExitCode(); code != wantExit {
		t.Errorf("exit code %d, want %d\n%s", code, wantExit, out)
	}
	var said []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "{") {
			said = append(said, strings.TrimSpace(line))
		}
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "sidecall: ") {
		t.Fatalf("it says %q, want one sentence", said)
	}
	return said[0]
}

func says(t *testing.T, sentence string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(sentence, word) {
			t.Errorf("it says %q, without %q", sentence, word)
		}
	}
}

// socketPath is short enough for a socket, wherever tests keep their files.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sc") //nolint:usetesting // t.TempDir is often too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "s.sock")
}

// listToolsOn calls over an address of the sidecar.
func listToolsOn(t *testing.T, target string) error {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = sidecallv1.NewToolServiceClient(conn).ListTools(t.Context(), &sidecallv1.ListToolsRequest{})
	return err
}

func TestServeOnAUnixSocket(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	s := newListening(t, "unix://"+path)
	s.Run()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket has mode %s, want 0600", info.Mode())
	}
	if err := listToolsOn(t, "unix://"+path); err != nil {
		t.Errorf("a call over the socket: %v", err)
	}
	if code, stdout, stderr := harness.CLI(t, "tools", "--addr", "unix://"+path); code != 0 || !strings.Contains(stdout, "act") {
		t.Errorf("the command line over the socket: exit %d\n%s%s", code, stdout, stderr)
	}

	other := newListening(t, "unix://"+path)
	says(t, refusedStart(t, other, 3), path, "another process listens there", "choose another path")
	if err := listToolsOn(t, "unix://"+path); err != nil {
		t.Errorf("the refused one has broken the socket of the first: %v", err)
	}

	// A process that is killed leaves its socket behind; the next takes it over.
	s.Kill()
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the socket of a killed process is gone: %v", err)
	}
	s.Run()
	if err := listToolsOn(t, "unix://"+path); err != nil {
		t.Errorf("after the takeover: %v", err)
	}
	s.Stop()
	if _, err := os.Stat(path); err == nil {
		t.Error("a sidecar that ends leaves its socket behind")
	}
}

func TestServeRefusesAddressesItCannotHave(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		listen string
		exit   int
		says   []string
	}{
		"port in use": {"tcp://" + taken.Addr().String(), 3, []string{taken.Addr().String(), "the port is in use", "choose another port"}},
		"missing directory": {
			"unix:///no/such/directory/s.sock", 3, []string{"/no/such/directory/s.sock: its directory does not exist", "create it"},
		},
		"a file that is no socket": {"unix://" + file, 3, []string{file, "is no socket", "choose another path"}},
		"not loopback":             {"tcp://0.0.0.0:0", 2, []string{"sidecall.yaml:1:", "listen[1]", "other machines"}},
	} {
		t.Run(name, func(t *testing.T) {
			says(t, refusedStart(t, newListening(t, c.listen), c.exit), c.says...)
		})
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
		t.Errorf("the file in the way is now %q, %v", text, err)
	}

	admin := newListening(t)
	config, err := os.ReadFile(admin.Config)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(config), admin.Admin, taken.Addr().String(), 1)
	if err := os.WriteFile(admin.Config, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	says(t, refusedStart(t, admin, 3), "admin", "the port is in use")
}
