package config

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the files that the tests compare with")

// scene is an Environment in a map; files have their path as name.
type scene map[string]string

func (s scene) Getenv(name string) (string, bool) {
	value, ok := s[name]
	return value, ok
}

func (s scene) ReadFile(path string) ([]byte, error) {
	if value, ok := s[path]; ok {
		return []byte(value), nil
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

// theScene is what the files under testdata refer to.
var theScene = scene{
	"SHOP_TOKEN": "s3cr3t-t0k3n", "SHOP_HOST": "shop.example.com", "PORT": "9001", "EMPTY": "",
	"REDIS_PASSWORD": "hunter2-redis", "TWO_LINES": "hunter2\nX-Evil: 1",
	"/run/secrets/redis": "hunter2-file\n",
}

// secrets are the values of theScene that must never show.
var secrets = []string{"s3cr3t", "hunter2"}

func testFiles(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files like %s (%v)", pattern, err)
	}
	return files
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// golden compares got with a file, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(read(t, path)), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestBadFiles keeps every message that a user can get where a reader of a
// change can see it: testdata/bad/x.yaml is answered by x.txt.
func TestBadFiles(t *testing.T) {
	for _, file := range testFiles(t, "testdata/bad/*.yaml") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			c, err := Parse(filepath.Base(file), read(t, file), theScene)
			if c != nil || err == nil {
				t.Fatal("a bad file was accepted")
			}
			var problems Problems
			if !errors.As(err, &problems) || len(problems) == 0 || len(problems) > MaxProblems+1 {
				t.Fatalf("not between 1 and %d problems: %v", MaxProblems, err)
			}
			for _, secret := range secrets {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("a secret shows in: %v", err)
				}
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

// TestGoodFiles keeps what each file comes to, and its warnings: testdata/good/x.yaml
// is answered by x.txt.
func TestGoodFiles(t *testing.T) {
	for _, file := range testFiles(t, "testdata/good/*.yaml") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			c := mustParse(t, filepath.Base(file), read(t, file))
			got := c.String() + "\n" + indentJSON(t, c) +
				"\nwarnings:\n" + Problems(c.Warnings()).Error() + "\n"
			for _, secret := range secrets {
				if strings.Contains(got, secret) {
					t.Errorf("a secret shows in: %s", got)
				}
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", got)
		})
	}
}
