package mcpservers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A source tree where nothing was installed, and one where everything was.
func tree(t *testing.T, files ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, f := range append(files, "test/e2e/install.sh") {
		path := filepath.Join(root, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sub := filepath.Join(root, "deep", "down")
	if err := os.MkdirAll(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(sub)
	return root
}

func TestServersAreFoundFromAnyDirectoryOfTheTree(t *testing.T) {
	tree(t, "test/e2e/node/node_modules/.bin/mcp-server-memory", "test/e2e/.venv/bin/mcp-server-git", "test/e2e/.venv/bin/python")

	memory, err := Memory("/tmp/m.json")
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(memory.Command[0]) || memory.Env[len(memory.Env)-1] != "MEMORY_FILE_PATH=/tmp/m.json" {
		t.Errorf("memory is started as %q with %q", memory.Command, memory.Env)
	}
	git, err := Git("/repo")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(git.Command[1:], " "); got != "--repository /repo" {
		t.Errorf("git gets the arguments %q", got)
	}
	if _, err := Python(); err != nil {
		t.Error(err)
	}
	if _, err := NodeModules(); err != nil {
		t.Error(err)
	}
}

func TestAMissingServerSaysHowToGetIt(t *testing.T) {
	tree(t)
	for name, find := range map[string]func() (Server, error){
		"everything": func() (Server, error) { return EverythingHTTP(1) },
		"filesystem": func() (Server, error) { return Filesystem("/") },
		"time":       Time,
		"sqlite":     func() (Server, error) { return SQLite("x.db") },
	} {
		if _, err := find(); err == nil || !strings.Contains(err.Error(), "test/e2e/install.sh") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

func TestOutsideOfTheTreeThereIsNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := Dir(); err == nil {
		t.Error("an e2e directory was found where there is none")
	}
}
