package sidecall_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sidecall "github.com/sidecall/sidecall/clients/go"
)

// Why a sidecar did not start is said, in its own words.
func TestWhyASidecarDidNotStart(t *testing.T) {
	dir := t.TempDir()
	program := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for says, binary := range map[string]string{
		"exit status 2\nsidecall: sidecall.yaml:3:1: no such key": program("no", "#!/bin/sh\necho 'sidecall: sidecall.yaml:3:1: no such key' >&2\nexit 2\n"),
		"name one in Launch.Binary or SIDECALL_BINARY":            filepath.Join(dir, "nothing"),
		"cannot be started: ":                                     program("other", "\x7fELF of another machine"),
	} {
		_, err := sidecall.Launch{Config: "sidecall.yaml", Binary: binary}.Start(t.Context())
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// told runs a launch of a script that stands for the sidecar.
func told(t *testing.T, script string) *sidecall.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	client, err := sidecall.Launch{Config: "sidecall.yaml", Binary: path, StartTimeout: 250 * time.Millisecond}.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Backends whose tools are missing when the start has had its time are named.
func TestBackendsThatAreMissingAreNamed(t *testing.T) {
	var log strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	client := told(t, `[ "$*" = "serve --config sidecall.yaml --launched --start-timeout 250ms" ] || exit 1
echo null; echo '{}' # of a script around it
echo '{"listen": "tcp://127.0.0.1:1", "missing": {"files": "connection refused"}}'; cat >/dev/null`)
	if said := log.String(); !strings.Contains(said, "level=WARN") || !strings.Contains(said, `backend=files after=250ms why="connection refused"`) {
		t.Errorf("the log says %q", said)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}

// What a script around it prints is passed over.
func TestAScriptAroundASidecar(t *testing.T) {
	if err := told(t, `echo starting; echo '{"listen": "tcp://127.0.0.1:1"}'; cat >/dev/null`).Close(); err != nil {
		t.Error(err)
	}
}

// One that has ended is not waited for: there is never to be another.
func TestOneThatHasEndedIsNotWaitedFor(t *testing.T) {
	client := told(t, `echo '{"listen": "tcp://127.0.0.1:1"}'; echo 'it was killed' >&2; exit 3`)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // less than its patience
	defer cancel()
	_, err := client.RunTools(ctx, wants, sidecall.Call{ConversationID: "c"})
	w := added(t, func(context.Context, struct{}) (string, error) { return "", nil })
	for what, err := range map[string]error{"a turn": err, "a worker": client.Work(ctx, w)} {
		if err == nil || !strings.Contains(err.Error(), "the sidecar has ended: exit status 3\nit was killed") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A sidecar that goes on for other programs is not waited for, and not killed.
func TestOneThatGoesOnForOthersIsLetGo(t *testing.T) {
	dir := t.TempDir()
	if err := exec.CommandContext(t.Context(), "mkfifo", filepath.Join(dir, "end")).Run(); err != nil {
		t.Fatal(err)
	}
	client := told(t, `echo '{"listen": "tcp://127.0.0.1:1"}'; cat >/dev/null; echo '{"stays": true}'
exec >/dev/null 2>&1; cat `+dir+`/end`)
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "end"), nil, 0o600); err != nil { // which it has to open, so it is there
		t.Error(err)
	}
}
