package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/telemetry"
)

// The page names every room below internal, and every rule and kind of backend.
func TestTheArchitectureNamesEveryRoom(t *testing.T) {
	page := read(t, "architecture.md")
	for _, below := range []string{"", "rules", "backend"} {
		entries, err := os.ReadDir("../internal/" + below)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := strings.TrimSuffix(e.Name(), "tool") // httptool is of the kind http
			if e.IsDir() && !regexp.MustCompile("`"+name+"`|"+`backend/\{[^}]*\b`+name+`\b`).MatchString(page) {
				t.Errorf("architecture.md does not name %s of internal/%s", name, below)
			}
		}
	}
}

// Whoever is told of a rule by a metric or a line of the log finds it on the page of the signals.
func TestTheSignalsHaveEveryRule(t *testing.T) {
	page := read(t, "signals.md")
	for _, rule := range telemetry.Rules() {
		if !strings.Contains(page, "`"+rule+"`") {
			t.Errorf("signals.md does not have the rule %s", rule)
		}
	}
}

func read(t *testing.T, document string) string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
