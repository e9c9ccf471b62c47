package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
)

// testless are the test files below a directory, of every tag, that hold no test: no
// Test, Fuzz, Benchmark or Example, and no TestMain. One that only shows the insides of
// its package to tests outside of it may (export_test.go).
func testless(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && path != dir && (name == "node_modules" || name == "testdata" || strings.HasPrefix(name, ".")):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, "_test.go") || name == "export_test.go":
			return nil
		}
		has, err := hasTest(path)
		if err == nil && !has {
			names = append(names, path)
		}
		return err
	})
	return names, err
}

func hasTest(path string) (bool, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return false, err
	}
	for _, declaration := range file.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok || f.Recv != nil {
			continue
		}
		for _, kind := range [...]string{"Test", "Fuzz", "Benchmark", "Example"} {
			if strings.HasPrefix(f.Name.Name, kind) {
				return true, nil
			}
		}
	}
	return false, nil
}
