package app

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/config"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// What is observed is written to a file: a pipe that nobody reads would be waited for.
func TestWhatIsObservedIsWrittenToAFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := parsed(t, fmt.Sprintf("observe: {file: %q}\nprofiles: {look: {mode: observe}}\ndefault_profile: look", pipe))
	_, err := newGeneration(cfg, surroundings{logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), ":1:17: observe.file: ") || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("the start says %v", err)
	}
}

// Beside profiles that enforce, one that observes has its calls made as often as they are sent, and what
// would have become of them in a file beside the config, which report reads. The start says so.
func TestAProfileThatObserves(t *testing.T) {
	dir := harness.ShortDir(t)
	socket := "unix://" + filepath.Join(dir, "s.sock")
	cfg, err := config.Parse(filepath.Join(dir, "sidecall.yaml"), fmt.Appendf(nil, `
listen: [%q]
admin: off
operator: off
store: {memory: {}}
identity: {require: []}
default_profile: strict
profiles: {strict: {}, look: {mode: observe}}
backends: {sh: {exec: {}}}
tools: {append: {backend: sh, exec: {argv: [/bin/sh, -c, "echo x >> ledger; cat"]}, description: Appends., approve_when: has(args.much), input_schema: {type: object, properties: {much: {type: boolean}}, additionalProperties: false}}}
`, socket), config.System())
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	s := started(t, cfg, Options{Log: slog.NewTextHandler(&said, nil), Version: "test"})
	client := sidecallv1.NewToolServiceClient(connected(t, socket))
	for _, profile := range []string{"strict", "look"} {
		for _, arguments := range []string{`{}`, `{}`, `{"much":true}`, `{"wrong":1}`} {
			id := profile + strings.Trim(arguments, "{}")
			if _, err := client.ExecuteTool(t.Context(), &sidecallv1.ExecuteToolRequest{ToolUseId: id, ToolName: "append", Profile: profile, ArgumentsJson: arguments}); err != nil {
				t.Fatal(err)
			}
		}
		ledger, err := os.ReadFile(filepath.Join(dir, "ledger"))
		if want := map[string]int{"strict": 1, "look": 5}[profile]; err != nil || strings.Count(string(ledger), "x") != want {
			t.Errorf("%s: it ran %d times, want %d: %v", profile, strings.Count(string(ledger), "x"), want, err)
		}
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	report, err := ReadReport(filepath.Join(dir, "observed.jsonl"), time.Time{})
	if err != nil || report.Calls != 4 || len(report.Again) != 1 || len(report.Wrong) != 1 || len(report.Held) != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	if !strings.Contains(said.String(), "profiles.look.mode") {
		t.Error("the start does not say that a profile observes")
	}
}

// A profile begins to enforce, and its calls are written to another file, with the next config.
func TestTheModeOfAProfileChanges(t *testing.T) {
	dir := t.TempDir()
	text := func(file, mode string) string {
		return fmt.Sprintf("observe: {file: %q}\nprofiles: {p: {mode: %s}}\ndefault_profile: p\n", filepath.Join(dir, file), mode) + twoTools
	}
	c := newChanging(t, text("one", "observe"))
	c.call("1", "act")
	c.take(text("two", "observe"))
	c.call("1", "act")
	c.take(text("two", "enforce"))
	if first, again := c.call("1", "act"), c.call("1", "act"); first.GetReplayed() || !again.GetReplayed() {
		t.Errorf("first %v, again %v", first, again)
	}
	if n := len(c.arrived); n != 3 {
		t.Errorf("it was made %d times", n)
	}
	for _, file := range []string{"one", "two"} {
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			if report, err := ReadReport(filepath.Join(dir, file), time.Time{}); err == nil && report.Calls == 1 {
				break
			} else if time.Now().After(end) {
				t.Fatalf("%s: %+v, %v", file, report, err)
			}
		}
	}
}
