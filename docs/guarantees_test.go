// Package docs_test checks what the documents say of the code.
package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link is a link to a test: [words](../path/of_test.go#TestName), relative to the
// document.
var link = regexp.MustCompile(`\]\(((?:\.\./)?[^):#]+_test\.go)#((?:Test|Fuzz)[A-Za-z0-9_]+)\)`)

// named is a link to any function: what tests share (a suite of all stores) is linked
// to beside the tests that run it.
var named = regexp.MustCompile(`\]\(((?:\.\./)?[^):#]+\.go)#([A-Za-z0-9_]+)\)`)

// Every guarantee, and everything said not to be one, is a list item or a row of
// a table, and names the test that shows it. The test exists.
func TestEveryGuaranteeIsLinkedToItsTest(t *testing.T) {
	everyStatementHasItsTest(t, "guarantees.md", 40)
}

// Likewise every line of the threat model.
func TestEveryThreatIsLinkedToItsTest(t *testing.T) {
	everyStatementHasItsTest(t, "../SECURITY.md", 25)
}

// everyStatementHasItsTest checks a document that has at least so many statements.
func everyStatementHasItsTest(t *testing.T, document string, least int) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	statements := statementsOf(string(text))
	if len(statements) < least {
		t.Fatalf("only %d statements were found", len(statements))
	}
	for _, s := range statements {
		if !link.MatchString(s) {
			t.Errorf("no test shows this: %s", s)
		}
	}
	namedTestsExist(t, document, string(text))
}

// namedTestsExist checks that every function to which a document links is there.
func namedTestsExist(t *testing.T, document, text string) {
	t.Helper()
	for _, l := range named.FindAllStringSubmatch(text, -1) {
		if why := missing(filepath.Join(filepath.Dir(document), l[1]), l[2]); why != "" {
			t.Errorf("%s#%s: %s", l[1], l[2], why)
		}
	}
}

// statementsOf lists the items and the rows of a Markdown text, one line each;
// the heads of tables are none.
func statementsOf(text string) []string {
	var out []string
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "- "):
			out = append(out, trimmed)
		case strings.HasPrefix(trimmed, "|"):
			head := i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|--")
			if !head && !strings.HasPrefix(trimmed, "|--") {
				out = append(out, trimmed)
			}
		case strings.HasPrefix(line, "  ") && trimmed != "" && len(out) > 0: // an item goes on
			out[len(out)-1] += " " + trimmed
		}
	}
	return out
}

// missing says why there is no such test, or function; empty when there is.
func missing(path, name string) string {
	source, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		return "there is no such file"
	}
	if !strings.Contains(string(source), "\nfunc "+name+"(") {
		return "there is no such function in it"
	}
	return ""
}

// A checker that accepts anything would say nothing.
func TestTheCheckerFindsWhatIsMissing(t *testing.T) {
	statements := statementsOf("# x\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\ntext\n- one\n  and more [y](../a_test.go#TestB)\n- two\n")
	want := []string{"| 1 | 2 |", "- one and more [y](../a_test.go#TestB)", "- two"}
	if strings.Join(statements, "\n") != strings.Join(want, "\n") {
		t.Errorf("found %q", statements)
	}
	if link.MatchString(statements[0]) || !link.MatchString(statements[1]) || link.MatchString(statements[2]) {
		t.Error("links are not told from their absence")
	}
	for name, want := range map[string]bool{"TestTheCheckerFindsWhatIsMissing": false, "TestNothing": true, "missing": false} {
		if got := missing("guarantees_test.go", name) != ""; got != want {
			t.Errorf("%s is missing: %v", name, got)
		}
	}
	if missing("nowhere_test.go", "TestX") == "" {
		t.Error("a file that is not there was found")
	}
}

// What is said of a wrapper names the tests that show it, and they exist.
func TestWrapNamesItsTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("wrap.md")
	if err != nil {
		t.Fatal(err)
	}
	if found := link.FindAllString(string(text), -1); len(found) < 20 {
		t.Errorf("it names %d tests", len(found))
	}
	namedTestsExist(t, "wrap.md", string(text))
}
