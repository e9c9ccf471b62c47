package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// room is a link to a part of the work that is still to come: [later: words](#heading).
var room = regexp.MustCompile(`\[later: [^\]]+\]\(#([a-z-]+)\)`)

// Every requirement of the sources stands in a row that names a test which exists,
// or the part of the work to come that has a heading of its own.
func TestEveryRequirementOfTheSourcesIsShownOrPlanned(t *testing.T) {
	const document, least = "sources.md", 100
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	requirements := requirementsOf(string(text))
	if len(requirements) < least {
		t.Fatalf("only %d requirements were found", len(requirements))
	}
	there := headings(string(text))
	for _, r := range requirements {
		if why := unshown(r, there); why != "" {
			t.Errorf("%s: %s", why, r)
		}
	}
	namedTestsExist(t, document, string(text))
}

// place is where a source says something: its number and at least one word, as in
// "1 incidents, piece 4; 5 loops".
var place = regexp.MustCompile(`^[1-5] [a-z][a-z0-9 ,]*(; [1-5] [a-z][a-z0-9 ,]*)*$`)

// requirementsOf are the rows of the tables that say where something is asked for.
func requirementsOf(text string) (rows []string) {
	asked := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "| asked for |"):
			asked = true
		case !strings.HasPrefix(line, "|"):
			asked = false
		case asked && !strings.HasPrefix(line, "|--"):
			rows = append(rows, line)
		}
	}
	return rows
}

// unshown says what a row lacks; empty when nothing.
func unshown(row string, rooms map[string]bool) string {
	cells := strings.Split(strings.Trim(row, "| "), " | ")
	if len(cells) != 3 {
		return "not three cells"
	}
	if !place.MatchString(cells[1]) {
		return "no place in a source"
	}
	later := room.FindAllStringSubmatch(cells[2], -1)
	for _, l := range later {
		if !rooms[l[1]] {
			return "nothing is still to come under #" + l[1]
		}
	}
	if len(later) == 0 && !link.MatchString(cells[2]) {
		return "neither a test nor a part to come"
	}
	return ""
}

// headings are the anchors of a Markdown text, as GitHub makes them.
func headings(text string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(text) {
		if title, ok := strings.CutPrefix(strings.TrimSpace(line), "### "); ok {
			all[strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(title), ""), " ", "-")] = true
		}
	}
	return all
}

// A checker that accepts anything would say nothing.
func TestTheCheckerFindsWhatASourceLacks(t *testing.T) {
	rows := requirementsOf("| | account |\n|---|---|\n| 1 | x |\n\n| asked for | where | shown by |\n|---|---|---|\n| a | 1 b | c |\n| d | 2 e | f |\n\n| g | h | i |\n")
	if want := []string{"| a | 1 b | c |", "| d | 2 e | f |"}; strings.Join(rows, "\n") != strings.Join(want, "\n") {
		t.Errorf("found %q", rows)
	}
	rooms := headings("# One\n\n### Packages, and workers\n")
	const test = "[x](../a_test.go#TestB)"
	for row, want := range map[string]string{
		"| a | 1 incidents, piece 4; 5 loops | " + test + " |":                 "",
		"| a | 1 b | [later: packages](#packages-and-workers) |":               "",
		"| a | 1 b | [later: packages](#packages-and-workers); " + test + " |": "",
		"| a | 1 b | " + test + "; [later: packages](#packages-and-players) |": "nothing is still to come under #packages-and-players",
		"| a | 1 b | later |":              "neither a test nor a part to come",
		"| a | 1 b | [x](../a.go#TestB) |": "neither a test nor a part to come",
		"| a | 6 b | " + test + " |":       "no place in a source",
		"| a | somewhere | " + test + " |": "no place in a source",
		"| a | 1 | " + test + " |":         "no place in a source",
		"| a | " + test + " |":             "not three cells",
	} {
		if got := unshown(row, rooms); got != want {
			t.Errorf("%s: %q, want %q", row, got, want)
		}
	}
}
