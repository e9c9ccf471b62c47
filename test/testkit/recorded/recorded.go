// Package recorded has recorded runs of an agent: what it called, prompt by prompt, and
// what came of it.
package recorded

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"testing"
)

// Run is one run of an agent; see testdata/README.md.
type Run struct {
	Task      int      `json:"task"`
	Trial     int      `json:"trial"`
	Succeeded bool     `json:"succeeded"`
	Prompts   [][]Call `json:"prompts"`
}

// Call is one call of a run.
type Call struct {
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"`
	Result    string `json:"result"`
	IsError   bool   `json:"is_error"`
}

//go:embed testdata/airline-even.jsonl.gz
var airline []byte

// runs is how many there are.
const runs = 100

// Airline returns the runs of an agent at the desk of an airline.
func Airline(tb testing.TB) (all []Run) {
	tb.Helper()
	text, err := gzip.NewReader(bytes.NewReader(airline))
	if err != nil {
		tb.Fatal(err)
	}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var run Run
		if err := json.Unmarshal(lines.Bytes(), &run); err != nil {
			tb.Fatal(err)
		}
		all = append(all, run)
	}
	if err := lines.Err(); err != nil || len(all) != runs {
		tb.Fatalf("%d recorded runs, want %d: %v", len(all), runs, err)
	}
	return all
}
