// Package fuzz runs every fuzz target of the module, one after the other, for
// as long as the size of the proof allows. What a fuzzer finds is written to
// testdata/fuzz of the target's package, as with go test -fuzz, and stays there
// as a seed that every later go test tries.
package fuzz

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Target is one fuzz target.
type Target struct {
	// Package is the directory below the root of the module.
	Package string
	Name    string
}

// Targets are all there are. A test compares them with what Find finds, so that
// a target that nobody runs, and one that is gone, is noticed.
var Targets = []Target{
	{"dedupe", "FuzzAppendToALog"},
	{"dedupe", "FuzzSealed"},
	{"dedupe", "FuzzStored"},
	{"internal/backend", "FuzzClassify"},
	{"internal/backend", "FuzzMessage"},
	{"internal/backend", "FuzzParseRetryAfter"},
	{"internal/backend/httptool", "FuzzPathArgument"},
	{"internal/backend/mcptool", "FuzzEvents"},
	{"internal/backend/mcptool", "FuzzLines"},
	{"internal/backend/mcptool", "FuzzResult"},
	{"internal/backend/worker", "FuzzDeclaration"},
	{"internal/backend/worker", "FuzzResult"},
	{"internal/call", "FuzzExecute"},
	{"internal/config", "FuzzParse"},
	{"internal/conversation", "FuzzAppend"},
	{"internal/conversation", "FuzzCompact"},
	{"internal/interpret", "FuzzRules"},
	{"internal/interpret", "FuzzSelection"},
	{"internal/output", "FuzzBoundary"},
	{"internal/output", "FuzzClean"},
	{"internal/output", "FuzzCleanJSON"},
	{"internal/output", "FuzzPage"},
	{"internal/output", "FuzzPages"},
	{"internal/output", "FuzzPick"},
	{"internal/output", "FuzzShape"},
	{"internal/pattern", "FuzzCost"},
	{"internal/pattern", "FuzzTheMachineAgreesWithGo"},
	{"internal/redact", "FuzzSet"},
	{"internal/rules/history/failures", "FuzzDecode"},
	{"internal/rules/loop/guard", "FuzzDecode"},
	{"internal/schema", "FuzzCanonical"},
	{"internal/schema", "FuzzCanonicalEquality"},
	{"internal/schema", "FuzzCheck"},
	{"internal/schema", "FuzzFieldPath"},
	{"internal/schema", "FuzzParseArgs"},
	{"internal/schema", "FuzzRepair"},
	{"internal/schema", "FuzzSchema"},
	{"internal/schema", "FuzzSuggest"},
	{"internal/store/embedded", "FuzzFrame"},
	{"internal/store/journal", "FuzzJournal"},
	{"internal/store/redisstore", "FuzzDecode"},
	{"internal/store/redisstore", "FuzzKeys"},
	{"internal/timeline", "FuzzBuild"},
	{"internal/tool", "FuzzEditDistance"},
	{"internal/tool", "FuzzRenderError"},
	{"internal/tool", "FuzzShorten"},
	{"server", "FuzzLenient"},
}

// Find lists the fuzz targets in the source below root, by package and name.
func Find(root string) ([]Target, error) {
	var found []Target
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules" || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		names, err := targetsOf(path)
		for _, name := range names {
			found = append(found, Target{filepath.ToSlash(dir), name})
		}
		return err
	})
	slices.SortFunc(found, func(a, b Target) int {
		return strings.Compare(a.Package+" "+a.Name, b.Package+" "+b.Name)
	})
	return found, err
}

// targetsOf lists the names of the fuzz targets in one file.
func targetsOf(path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("looking for fuzz targets: %w", err)
	}
	var names []string
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}
