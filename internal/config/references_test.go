package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFileReferencesAreFound(t *testing.T) {
	c, err := Parse("c.yaml", []byte(`
backends:
  a:
    http:
      base_url: http://example.com
      headers: &h {A: "x ${file:/a} ${file:/b}", B: "$${file:/not}", C: "${env:C}"}
  b: {http: {base_url: http://example.com, headers: *h}}
  c: {http: {base_url: http://example.com, headers: {A: "${file:/b}", D: "${file:/d}"}}}
`), scene{"/a": "1", "/b": "2", "/d": "3", "C": "4"})
	if err != nil {
		t.Fatal(err)
	}
	want := []FileReference{{"/a", 6, 23}, {"/b", 6, 23}, {"/d", 8, 74}}
	if diff := cmp.Diff(want, c.FileReferences()); diff != "" {
		t.Error(diff)
	}
	if c.File != "c.yaml" {
		t.Errorf("the file is %s", c.File)
	}
}
