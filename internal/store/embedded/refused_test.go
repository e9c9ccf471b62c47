package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Whoever reads that a store does not open reads which, why, and what to do; and is
// told to remove a file only when it is of no use any more.
func TestAStoreThatDoesNotOpenSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		path func(t *testing.T) string
		want []string
	}{
		"in use": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "store.db")
			open(t, path, Options{})
			return path
		}, []string{"another process is using it", "stop that", "store.embedded.path"}},
		"a directory": {func(t *testing.T) string { return t.TempDir() }, []string{"not a regular file", "store.embedded.path"}},
		"of another version": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "store.db")
			s := open(t, path, Options{})
			claim(t, s, request("1", 0))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt(append([]byte("sidecall records 7"), make([]byte, 100)...), pageSize)
			}
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			return path
		}, []string{`"sidecall records 7"`, "run the version that wrote it"}},
	} {
		path := test.path(t)
		before, _ := os.ReadFile(path) // a directory has none
		_, err := Open(path, Options{LockWait: time.Millisecond})
		if err == nil {
			t.Errorf("%s: it opens", name)
			continue
		}
		for _, word := range append(test.want, path) {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: no %q in: %v", name, word, err)
			}
		}
		if strings.Contains(err.Error(), "remove it") {
			t.Errorf("%s: it is to be removed: %v", name, err)
		}
		if after, _ := os.ReadFile(path); string(after) != string(before) {
			t.Errorf("%s: it was changed", name)
		}
	}
}
