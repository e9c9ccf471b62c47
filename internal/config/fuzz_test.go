package config

import (
	"errors"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
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
	f.Add([]byte("a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ntools: *d\n"))
	f.Add([]byte("tools: {<<: [{a: 1}, {b: 2}]}\n? [complex]\n: &x {x: *x}\n"))
	f.Add([]byte("retention: 9999999999999999999h\ndefaults: {attempt_timeout: -1s, max_output_chars: 1e99}\n"))
	f.Add([]byte("listen: [\"tcp://${env:NOPE}\", '${file:/etc/passwd}']\nstore: {redis: {addrs: [\"${env:A${env:B}}\"]}}\n"))
	f.Add([]byte("%YAML 9.9\n---\n\tx: 1\r\n...\n---\n"))
	schema := compiledSchema(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64<<10 {
			return
		}
		c, err := parseBounded(t, data)
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

// lineBreaks makes one of all the line breaks that YAML knows.
var lineBreaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// What reading a file of 64 KiB may cost, on a busy machine and while fuzzing.
const (
	mostTime   = 20 * time.Second
	mostMemory = 512 << 20
)

// parseBounded is Parse, with a panic, which is what a fuzzer notices, when it
// takes too long.
func parseBounded(t *testing.T, data []byte) (*Config, error) {
	t.Helper()
	allocated := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := allocated()
	defer time.AfterFunc(mostTime, func() { panic("it takes longer than " + mostTime.String()) }).Stop()
	c, err := Parse("fuzz.yaml", data, theScene)
	if bytes := allocated() - before; bytes > mostMemory {
		t.Fatalf("it took %d MB to read %d bytes", bytes>>20, len(data))
	}
	return c, err
}

func checkProblems(t *testing.T, data []byte, err error) {
	t.Helper()
	var problems Problems
	ok := errors.As(err, &problems)
	if !ok || len(problems) == 0 || len(problems) > MaxProblems+1 {
		t.Fatalf("%T of %d", err, len(problems))
	}
	lines := strings.Split(lineBreaks.Replace(string(data)), "\n")
	for _, p := range problems {
		if p.Line < 0 || p.Line > len(lines)+1 || p.Column < 0 || (p.Line == 0) != (p.Column == 0) || p.Message == "" {
			t.Fatalf("a problem without a place: %+v", p)
		}
		// One behind its last character is still in a line.
		if p.Line > 0 && p.Line <= len(lines) && p.Column > utf8.RuneCountInString(lines[p.Line-1])+1 {
			t.Fatalf("line %d is %q: %+v", p.Line, lines[p.Line-1], p)
		}
		if len(p.Error()) > 4000 {
			t.Fatalf("a problem of %d bytes: %.200s", len(p.Error()), p.Error())
		}
	}
}
