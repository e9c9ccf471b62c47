package app

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sidecall/sidecall/internal/config"
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
		found := checked(t, `
backends: {web: {http: {base_url: "https://example.com", tls: `+block+`}}}
tools: {t: {backend: web, description: x, http: {method: GET, path: /}}}
`)
		if !slices.ContainsFunc(found, func(p config.Problem) bool {
			return p.Line == 2 && strings.Contains(p.Message, "it is a named pipe")
		}) {
			t.Errorf("%s: %v", name, found)
		}
	}
}
