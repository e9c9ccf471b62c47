package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The page of the rules is written from the rules.
func TestThePageOfTheRules(t *testing.T) {
	const page, begin, end = "../../docs/check.md", "-update -->\n", "<!-- end of rules -->"
	text := string(read(t, page))
	before, rest, ok := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the rules", page)
	}
	var table strings.Builder
	table.WriteString("| rule | is | finds |\n|---|---|---|\n")
	for _, r := range Rules() {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", r.Rule, r.Severity, r.Finds)
	}
	golden(t, page, before+begin+table.String()+end+after)
}

func TestRulesHaveNamesThatScriptsCanLookFor(t *testing.T) {
	seen := map[Rule]bool{}
	for _, r := range Rules() {
		if seen[r.Rule] || strings.Trim(string(r.Rule), "abcdefghijklmnopqrstuvwxyz-") != "" {
			t.Errorf("the name %q is there twice, or holds other characters", r.Rule)
		}
		seen[r.Rule] = true
		if !strings.HasSuffix(r.Finds, ".") || strings.Contains(r.Finds, "|") || strings.Contains(r.Finds, "\n") {
			t.Errorf("%s: no sentence for a table: %s", r.Rule, r.Finds)
		}
	}
	if !slices.IsSortedFunc(Rules(), func(a, b RuleInfo) int { return grave[a.Severity] - grave[b.Severity] }) {
		t.Error("not the gravest first")
	}
	if Rule("made-up").Severity() != Wrong {
		t.Error("what nobody knows is taken lightly")
	}
}

var grave = map[Severity]int{Wrong: 0, Doubtful: 1, Telling: 2}

// Examine goes on where Parse ends, and keeps what is right.
func TestExamineKeepsWhatIsRight(t *testing.T) {
	text := "lease: soon\nbackends: {a: {http: {base_url: \"http://a\"}}}\nnosuch: 1\n"
	c, problems := ExamineText("f", []byte(text), nil)
	if c == nil || len(problems) != 2 || problems[0].Rule != RuleValue || problems[1].Rule != RuleUnknownKey {
		t.Fatalf("%v, %v", c, problems)
	}
	if c.Lease.Seconds() != 30 || c.Backends["a"].HTTP.BaseURL.Reveal() != "http://a" || len(c.Warnings()) != 1 {
		t.Errorf("%+v, warnings %v", c, c.Warnings())
	}
	if c, problems := ExamineText("f", []byte("a: ["), nil); c != nil || len(problems) != 1 || problems[0].Rule != RuleSyntax {
		t.Errorf("%v, %v", c, problems)
	}
	if _, problems := Examine("/no/such/file.yaml"); len(problems) != 1 || problems[0].Rule != RuleSyntax {
		t.Error(problems)
	}
}
