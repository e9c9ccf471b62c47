package demo

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The test binary is a sidecar that does not start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		fmt.Fprintln(os.Stderr, "there is no room for it")
		os.Exit(3)
	}
	os.Exit(m.Run())
}

// A sidecar that has ended is not waited for: it is told how, and what it has said.
func TestASidecarThatDoesNotStart(t *testing.T) {
	t.Parallel()
	c, err := newChild(t.TempDir(), "http://127.0.0.1:1", "http://127.0.0.1:2")
	if err != nil {
		t.Fatal(err)
	}
	err = c.start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "it has ended: exit status 3") || !strings.Contains(err.Error(), "there is no room for it") {
		t.Errorf("it has started: %v", err)
	}
	if err := c.stop(); err != nil {
		t.Errorf("what has ended is ended: %v", err)
	}
}
