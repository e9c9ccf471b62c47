//go:build unix

package assembly

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sidecall/sidecall/config"
)

// A pipe in the place of a certificate holds up neither check nor start.
func TestCertificatesComeFromRegularFiles(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]string{
		"ca": `{ca: "` + fifo + `"}`, "cert": `{cert: "` + fifo + `", key: "` + fifo + `"}`,
	} {
		_, err := Check(t.Context(), parsed(t, `
backends: {web: {http: {base_url: "https://example.com", tls: `+block+`}}}
tools: {t: {backend: web, description: x, http: {method: GET, path: /}}}
`))
		if err == nil || !strings.Contains(err.Error(), "it is a named pipe") {
			t.Errorf("%s: %v", name, err)
		}
		if _, ok := errors.AsType[config.Problems](err); !ok {
			t.Errorf("%s: the error has no place: %v", name, err)
		}
	}
}
