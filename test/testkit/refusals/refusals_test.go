package refusals

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// elsewhere are the functions that put something into words which is no reason to
// refuse a call, beside its record, or one that no record can speak against.
var elsewhere = map[string]string{
	"explain.NoID":          "of a call without an identity there is no record",
	"explain.Unwritable":    "what can be read can be written (FuzzCanonical), so that nobody gets there",
	"explain.Overloaded":    "nobody could look: TestACallWithoutRoomIsNotLiedTo",
	"explain.StoreDown":     "nobody could look: TestARefusalWithoutTheStore",
	"explain.NotStarted":    "there is no time to look, or nobody who waits: TestNothingIsBegunForACallerThatHasLeft",
	"explain.Corrupt":       "what the record says: TestACallWithACorruptRecord",
	"explain.CutShort":      "of a message that came to no end: no call of it was ever made",
	"explain.TooLarge":      "no request can be made with it, so that there is no record",
	"explain.Reused":        "what the record says",
	"explain.InProgress":    "what the record says",
	"explain.LostResult":    "what the record says",
	"explain.Unrepeatable":  "what the record says: repeatable_test.go",
	"explain.Custom":        "of a call that the sidecar does not make there is no record",
	"explain.Unknown":       "the call was sent",
	"loop.Ask":              "what the guard remembers, and nobody is told",
	"call.judge":            "the call was made: a profile that observes refuses nothing",
	"explain.NeverRun":      "what a resumed conversation is told of a record",
	"explain.Lost":          "what a resumed conversation is told of a record",
	"explain.Forgotten":     "what a resumed conversation is told of a record",
	"explain.Answered":      "what the record says of a call that its conversation has answered",
	"explain.Held":          "what the record says of a call that a person is asked of: TestAdmitOfWhatIsHeld",
	"explain.Denied":        "what a person says of a record",
	"explain.Failure":       "what an attempt says: the guards before it are those of call",
	"explain.Interrupted":   "a bug",
	"call.invoke":           "the call was sent",
	"call.stillRunning":     "the call was sent",
	"call.afterBug":         "a bug",
	"call.unknownAgain":     "what the record says",
	"call.unreadable":       "what a listing says of a record",
	"call.settledByHand":    "what an operator says of a record",
	"explain.BadRequest":    "the shape of the words of others",
	"explain.AllArguments":  "of a reference, by which the record knows its call: TestACallThatRefersIsKnownAfterItsOutput",
	"explain.Damaged":       "of a reference, by which the record knows its call: TestACallThatRefersIsKnownAfterItsOutput",
	"explain.Misshapen":     "of a reference, by which the record knows its call: TestACallThatRefersIsKnownAfterItsOutput",
	"explain.NoSuch":        "of a reference, by which the record knows its call: TestACallThatRefersIsKnownAfterItsOutput",
	"explain.NoText":        "of a reference, by which the record knows its call: TestACallThatRefersIsKnownAfterItsOutput",
	"explain.Partial":       "of a reference, by which the record knows its call: TestACallThatRefersIsKnownAfterItsOutput",
	"explain.TooMany":       "of a reference, by which the record knows its call: TestACallThatRefersIsKnownAfterItsOutput",
	"explain.TooManyValues": "of a reference, by which the record knows its call: TestACallThatRefersIsKnownAfterItsOutput",
	"explain.TooMuchRead":   "of a reference, by which the record knows its call: TestACallThatRefersIsKnownAfterItsOutput",
	"explain.TooMuch":       "of a reference, by which the record knows its call: TestACallThatRefersIsKnownAfterItsOutput",
	"explain.WrongPath":     "of a reference, by which the record knows its call: TestACallThatRefersIsKnownAfterItsOutput",
}

// Whoever words another refusal finds out here that it belongs into the table.
func TestNoReasonIsLeftOut(t *testing.T) {
	t.Parallel()
	told := map[string]bool{}
	for _, r := range Reasons {
		for _, words := range r.Words {
			told[words] = true
		}
	}
	there := map[string]bool{}
	dirs := map[string]func(*ast.FuncDecl) bool{"../../../internal/call/explain": explains}
	rules, err := filepath.Glob("../../../internal/rules/*/*.go")
	if err != nil || len(rules) == 0 {
		t.Fatal("there are no rules", err)
	}
	for _, file := range rules {
		dirs[filepath.Dir(file)] = func(f *ast.FuncDecl) bool { return returnsAnError(f) || wordsItself(f) }
	}
	for dir, puts := range dirs {
		for _, file := range parsed(t, dir) {
			for name := range wording(file, puts) {
				there[file.Name.Name+"."+name] = true
			}
		}
	}
	full := 0
	for _, file := range parsed(t, "../../../internal/call") {
		for name := range wording(file, wordsItself) {
			there["call."+name] = true
		}
		full += limits(file)
	}
	for _, file := range parsed(t, "../../../dedupe") {
		for _, ceiling := range ceilings(file) {
			there[ceiling] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if _, known := elsewhere[name]; known == told[name] {
			t.Errorf("%s is a reason of the table: %t; it has to be one, or stand in elsewhere with why not", name, told[name])
		}
	}
	for _, names := range [][]string{slices.Sorted(maps.Keys(told)), slices.Sorted(maps.Keys(elsewhere))} {
		for _, name := range names {
			if !there[name] {
				t.Errorf("%s is no more", name)
			}
		}
	}
	rooms := 0
	for _, r := range Reasons {
		if slices.Contains(r.Words, "explain.AtCapacity") {
			rooms++
		}
	}
	if full == 0 || rooms != full {
		t.Errorf("%d limits keep calls out, and the table has %d", full, rooms)
	}
}

// Two reasons of one name would have one record.
func TestEveryReasonHasItsOwnName(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range Reasons {
		if seen[r.Name] || (r.Code == "") != (r.Says == "") {
			t.Errorf("%q: %v", r.Name, r)
		}
		seen[r.Name] = true
	}
}

// parsed are the files of a package, its tests apart.
func parsed(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		t.Fatalf("%s has no files", dir)
	}
	return files
}

// wording are the functions of a file that put something into words.
func wording(file *ast.File, puts func(*ast.FuncDecl) bool) map[string]bool {
	names := map[string]bool{}
	for _, declared := range file.Decls {
		if f, ok := declared.(*ast.FuncDecl); ok && puts(f) {
			names[f.Name.Name] = true
		}
	}
	return names
}

// explains reports a function that others call and that returns the words of an error.
func explains(f *ast.FuncDecl) bool {
	return (f.Name.IsExported() || f.Recv == nil) && returnsAnError(f)
}

// returnsAnError reports a function that returns the words of an error, as rules have them for
// themselves, or as a method.
func returnsAnError(f *ast.FuncDecl) bool {
	return f.Type.Results != nil && len(f.Type.Results.List) == 1 && isOf(f.Type.Results.List[0].Type, "Error")
}

// wordsItself reports a function that makes an error or a failure with a code.
func wordsItself(f *ast.FuncDecl) (words bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok || !isOf(literal.Type, "Error") && !isOf(literal.Type, "Failure") {
			return true
		}
		for _, element := range literal.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				if key, ok := pair.Key.(*ast.Ident); ok && key.Name == "Code" {
					words = true
				}
			}
		}
		return true
	})
	return words
}

// isOf reports a type of package tool.
func isOf(of ast.Expr, name string) bool {
	selector, ok := of.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != name {
		return false
	}
	pkg, ok := selector.X.(*ast.Ident)
	return ok && pkg.Name == "tool"
}

// limits counts where a call is said to have found no seat. What is only said of a
// call that had a reason already, cmp.Or, is none.
func limits(file *ast.File) (n int) {
	ast.Inspect(file, func(node ast.Node) bool {
		assigned, ok := node.(*ast.AssignStmt)
		if !ok || len(assigned.Lhs) != len(assigned.Rhs) {
			return true
		}
		for i, to := range assigned.Lhs {
			if at, ok := to.(*ast.SelectorExpr); ok && at.Sel.Name == "full" && !isCallOf(assigned.Rhs[i], "Or") {
				n++
			}
		}
		return true
	})
	return n
}

// ceilings are the constants of a file that are a dedupe.Ceiling; the first one is none.
func ceilings(file *ast.File) (names []string) {
	ast.Inspect(file, func(node ast.Node) bool {
		group, ok := node.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			return true
		}
		of, ok := group.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident)
		for _, spec := range group.Specs[1:] {
			if ok && of.Name == "Ceiling" {
				names = append(names, spec.(*ast.ValueSpec).Names[0].Name)
			}
		}
		return false
	})
	return names
}

func isCallOf(of ast.Expr, name string) bool {
	called, ok := of.(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := called.Fun.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == name
}
