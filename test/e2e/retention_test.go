//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/test/testkit/harness"
)

// TestARetentionInWhichACallWouldBeForgotten is refused by check and by serve, which
// say how long it has to be; with that it is served.
func TestARetentionInWhichACallWouldBeForgotten(t *testing.T) {
	t.Parallel()
	const least = "10m4s" // the deadline and two leases
	settings := func(store, retention string) string {
		return "lease: 2s\nretention: " + retention + "\ndefaults: {deadline: 10m}\n" + store + oneBackend +
			"  act: {backend: up, description: Does it., http: {method: POST, path: /act}}\n"
	}
	onBothStores(t, func(t *testing.T, store string) {
		for _, retention := range []string{"1m", "10m3s"} {
			text := settings(store, retention)
			code, said := checked(t, text)
			refusedRetention(t, "check", code, said, least)
			file := filepath.Join(t.TempDir(), "sidecall.yaml")
			listen := "listen: [unix://" + filepath.Join(harness.ShortDir(t), "s.sock") + "]\n"
			if err := os.WriteFile(file, []byte(listen+text), 0o600); err != nil {
				t.Fatal(err)
			}
			code, _, stderr := harness.CLI(t, "serve", "--config", file)
			refusedRetention(t, "serve", code, stderr, least)
		}
		if code, said := checked(t, settings(store, least)); code != 0 {
			t.Errorf("check with %s: exit code %d\n%s", least, code, said)
		}
		harness.Start(t, settings(store, least))
	})
}

func refusedRetention(t *testing.T, command string, code int, said, least string) {
	t.Helper()
	if code == 0 || !strings.Contains(said, "retention: retention is ") || !strings.Contains(said, "a running call would be forgotten") ||
		!strings.Contains(said, "set retention to at least "+least) {
		t.Errorf("%s: exit code %d\n%s", command, code, said)
	}
}
