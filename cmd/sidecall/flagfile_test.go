package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTextOrFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "note")
	if err := os.WriteFile(path, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{"": "", "text": "text", "a@b": "a@b", "@" + path: "from a file"} {
		if got, err := textOrFile(value); got != want || err != nil {
			t.Errorf("%s: %q, %v", value, got, err)
		}
	}
	if err := os.Truncate(path, maxFlagFile+1); err != nil {
		t.Fatal(err)
	}
	if _, err := textOrFile("@" + path); err == nil {
		t.Error("a file of any size is read")
	}
}
