package call

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/internal/tool"
)

// Whatever refuses a call is counted under its own name.
func TestEveryRuleIsCounted(t *testing.T) {
	var names []string
	for rule := guard.SameCall; rule <= guard.Duplicate; rule++ {
		names = append(names, rule.String())
	}
	for _, name := range codeRules {
		names = append(names, name)
	}
	names = append(names, writtenNames(t)...)
	for _, name := range names {
		if !slices.Contains(telemetry.Rules(), name) {
			t.Errorf("telemetry does not know the rule %q", name)
		}
	}
}

// writtenNames are the names that stand in the refusals of the rules, and in their tables of names.
func writtenNames(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../rules/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if n.Names[0].Name == "names" {
					names = append(names, literals(n)...)
				}
			case *ast.CompositeLit:
				if of, ok := n.Type.(*ast.SelectorExpr); ok && of.Sel.Name == "Refusal" {
					names = append(names, nameIn(n)...)
				}
			}
			return true
		})
	}
	for _, name := range []string{"taint", "approval", "budget_calls"} {
		if !slices.Contains(names, name) {
			t.Errorf("%q was not found among %q", name, names)
		}
	}
	return names
}

// nameIn are the texts that a literal has under Name.
func nameIn(literal *ast.CompositeLit) (texts []string) {
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == "Name" {
				texts = append(texts, literals(pair.Value)...)
			}
		}
	}
	return texts
}

// literals are the texts below a node.
func literals(below ast.Node) (texts []string) {
	ast.Inspect(below, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			text, _ := strconv.Unquote(literal.Value) // a parser has read it
			texts = append(texts, text)
		}
		return true
	})
	return texts
}

// Every folder of a rule has its maker in the list, and the list its room.
func TestEveryRuleIsAsked(t *testing.T) {
	entries, err := os.ReadDir("../rules")
	if err != nil {
		t.Fatal(err)
	}
	dirs := slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !e.IsDir() })
	list, err := parser.ParseFile(token.NewFileSet(), "rules.go", nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	asked := literals(list)
	for _, dir := range dirs {
		if path := "github.com/sidecall/sidecall/internal/rules/" + dir.Name(); !slices.Contains(asked, path) {
			t.Errorf("rules.go knows no %s", path)
		}
	}
	if n := len(makers(nil)); n != len(dirs) || n != len(ruleset{}.backing) {
		t.Errorf("%d rules in %d folders, and held has room for %d", n, len(dirs), len(ruleset{}.backing))
	}
}

// A rule is told of what was refused, and not of what was sent or had been before.
func TestByWhichRuleACallWasRefused(t *testing.T) {
	failed := func(code tool.Code) *response {
		return rendered((&call{}).result().Refused(tool.Error{Code: code, Constraint: "x", Hint: "y"}, 0))
	}
	replayed := failed(tool.CodePermissionDenied)
	replayed.Replayed = true
	for name, c := range map[string]struct {
		res  *response
		by   ruling
		sent int
		want string
	}{
		"a success":                     {res: &response{}},
		"an open breaker":               {res: failed(tool.CodeCircuitOpen), want: "breaker"},
		"which opened in the middle":    {res: failed(tool.CodeCircuitOpen), sent: 1},
		"the profile":                   {res: failed(tool.CodePermissionDenied), want: "profile"},
		"the upstream":                  {res: failed(tool.CodePermissionDenied), sent: 1},
		"before a restart":              {res: replayed},
		"a definition":                  {res: failed(tool.CodePermissionDenied), by: ruling{"definition", tool.CodePermissionDenied}, want: "definition"},
		"which is running all the same": {res: failed(tool.CodeInProgress), by: ruling{"definition", tool.CodePermissionDenied}},
		"a guard":                       {res: failed(tool.CodeLoopDetected), by: ruling{guard.Cycle.String(), tool.CodeLoopDetected}, want: "cycle"},
		"a nudge with it":               {res: failed(tool.CodeInvalidArgs)},
		"a look that fails":             {res: failed(tool.CodeStoreUnavailable), by: ruling{guard.Duplicate.String(), tool.CodeLoopDetected}, want: "store"},
		"untrusted output":              {res: failed(tool.CodePermissionDenied), by: ruling{"taint", tool.CodePermissionDenied}, want: "taint"},
		"a rule of a code like others":  {res: failed(tool.CodeRateLimited), by: ruling{"own", tool.CodeRateLimited}, want: "own"},
		"its arguments":                 {res: failed(tool.CodeInvalidArgs)},
		"a ceiling":                     {res: failed(tool.CodeBudgetExceeded), by: ruling{"budget_tokens", tool.CodeBudgetExceeded}, want: "budget_tokens"},
	} {
		made := &call{log: report{by: c.by}}
		made.now.Sent = c.sent
		if got := endOf(made, c.res, false).Rule; got != c.want {
			t.Errorf("%s: refused by %q, want %q", name, got, c.want)
		}
	}
}
