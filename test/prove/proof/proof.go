// Package proof is what the proofs below prove/ share: how large they are, and
// how each of them reports the one row it adds to the table of `make prove`.
package proof

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

const (
	// SizeEnv names the environment variable that holds the size: short or full.
	SizeEnv = "SIDECALL_PROVE"
	// RowsEnv names the environment variable that holds the file to which the
	// rows are appended. Without it they are only logged.
	RowsEnv = "SIDECALL_PROVE_ROWS"
)

// Row is one row of the table.
type Row struct {
	// Fault is what was done to the system, unique together with Store.
	Fault string `json:"fault"`
	// Store is the store it was done with; empty where none is involved.
	Store string `json:"store"`
	// Runs is how often; a proof that ran nothing proves nothing.
	Runs int `json:"runs"`
	// Violations is how often a promise was broken.
	Violations int `json:"violations"`
	// Figure is what was measured, in a few words.
	Figure string `json:"figure"`
}

// Full reports whether the proofs run in full size. A size that is neither
// short nor full is a mistake that must not pass for either.
func Full() bool {
	switch size := os.Getenv(SizeEnv); size {
	case "", "short":
		return false
	case "full":
		return true
	default:
		panic(fmt.Sprintf("%s is %q; it can be short or full", SizeEnv, size))
	}
}

// Runs picks the number for the size that was asked for.
func Runs(short, full int) int { return pick(short, full) }

// Pick picks the duration for the size that was asked for.
func Pick(short, full time.Duration) time.Duration { return pick(short, full) }

func pick[T any](short, full T) T {
	if Full() {
		return full
	}
	return short
}

// Report adds a row to the table. The test fails when there were violations,
// or no runs.
func Report(tb testing.TB, row Row) {
	tb.Helper()
	tb.Logf("%s [%s]: %d runs, %d violations: %s", row.Fault, row.Store, row.Runs, row.Violations, row.Figure)
	if row.Runs <= 0 {
		tb.Errorf("%s [%s]: nothing was run", row.Fault, row.Store)
	}
	if row.Violations > 0 {
		tb.Errorf("%s [%s]: %d violations", row.Fault, row.Store, row.Violations)
	}
	if path := os.Getenv(RowsEnv); path != "" {
		if err := add(path, row); err != nil {
			tb.Error(err)
		}
	}
}

// add appends a row in one write, so that tests running at the same time do
// not tear each other's rows.
func add(path string, row Row) error {
	line, err := json.Marshal(row)
	if err != nil {
		return fmt.Errorf("a row of the proof: %w", err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("the rows of the proof: %w", err)
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

// Read returns the rows of a file in the order in which they were added; none
// for a file that is not there.
func Read(path string) ([]Row, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the rows of the proof: %w", err)
	}
	var rows []Row
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	for {
		var row Row
		if err := decoder.Decode(&row); errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return rows, fmt.Errorf("the rows of the proof: %s: %w", path, err)
		}
		rows = append(rows, row)
	}
}
