package config

import (
	"errors"
	"strings"
	"testing"
)

// FuzzParse looks for files that panic, that take more than their share, whose
// problems cannot be found in the file, or about which the decoder and the
// published schema disagree.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		for _, file := range testFiles(f, pattern) {
			f.Add(read(f, file))
		}
	}
	schema := compiledSchema(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64<<10 {
			return
		}
		c, err := Parse("fuzz.yaml", data, theScene)
		if err != nil {
			checkProblems(t, data, err)
			return
		}
		value, ok := asJSON(t, data)
		if !ok {
			t.Fatal("accepted, but not JSON")
		}
		if err := schema.Validate(value); err != nil {
			t.Fatalf("the decoder accepts what the schema refuses: %v", err)
		}
		for name := range c.Tools {
			if made, ok := c.Tool(name); !ok || made.Policy.Deadline <= 0 || made.Policy.Retry.MaxAttempts < 1 {
				t.Fatalf("tool %q is not whole: %+v", name, made)
			}
		}
		if out := indentJSON(t, c); strings.Contains(out, "hunter2") || strings.Contains(out, "s3cr3t") {
			if !strings.Contains(string(data), "hunter2") && !strings.Contains(string(data), "s3cr3t") {
				t.Fatalf("a secret shows in %s", out)
			}
		}
	})
}

func checkProblems(t *testing.T, data []byte, err error) {
	t.Helper()
	var problems Problems
	ok := errors.As(err, &problems)
	if !ok || len(problems) == 0 || len(problems) > MaxProblems+1 {
		t.Fatalf("%T of %d", err, len(problems))
	}
	lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 2
	for _, p := range problems {
		if p.Line < 0 || p.Line > lines+strings.Count(string(data), "\u2028")+strings.Count(string(data), "\u2029")+strings.Count(string(data), "\u0085") || p.Column < 0 || p.Message == "" {
			t.Fatalf("a problem without a place: %+v", p)
		}
		if len(p.Error()) > 4000 {
			t.Fatalf("a problem of %d bytes: %.200s", len(p.Error()), p.Error())
		}
	}
}
