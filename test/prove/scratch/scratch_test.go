package scratch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/test/prove/proof"
)

func TestADirectoryIsGoneWithItsTest(t *testing.T) {
	var dir string
	t.Run("uses it", func(t *testing.T) {
		dir = Dir(t)
		if other := Dir(t); other == dir {
			t.Errorf("%s is given twice", dir)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
			t.Error(err)
		}
	})
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v, want it gone", dir, err)
	}
}

func TestTheFullFormUsesTheDisk(t *testing.T) {
	t.Setenv(proof.SizeEnv, "full")
	if dir := Dir(t); !strings.HasPrefix(dir, os.TempDir()+"/") { //nolint:usetesting // where the system puts them is the question
		t.Errorf("%s is not where temporary files are", dir)
	}
}
