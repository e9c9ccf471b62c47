package mutants

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// operator breaks a place of a function. It is given the places that it could break,
// and breaks the innermost that has the words of its edit: so an edit is none the less
// found when what stands around it is moved, renamed or written otherwise.
type operator struct {
	// places are those of a node that can be broken.
	places func(ast.Node) []ast.Node
	// becomes is what becomes of the text of one.
	becomes func(text string) string
}

// The operators.
var (
	toFalse = operator{conditions, func(text string) string { return "false && (" + text + ")" }}
	toTrue  = operator{conditions, func(text string) string { return "(true || (" + text + "))" }}
	gone    = operator{statements, func(string) string { return "" }}
)

// never is a mutant in which a condition of a function is never true: of an if, a for
// or a case, or an operand of && or ||. What is not asked for in an alternative, or
// does not matter beside others, is said with it or with always.
func never(name, in, words string, by Suite) Mutant { return broken(name, in, toFalse, words, by) }

// always is one in which it is true whatever happens.
func always(name, in, words string, by Suite) Mutant { return broken(name, in, toTrue, words, by) }

// without is one in which a statement is not there.
func without(name, in, words string, by Suite) Mutant { return broken(name, in, gone, words, by) }

func broken(name, in string, by operator, words string, suite Suite) Mutant {
	return Mutant{Name: name, Edits: []Edit{{In: in, Old: words, by: &by}}, Suite: suite}
}

// instead is a mutant in which words of a function are others.
func instead(name, in, words, others string, by Suite) Mutant {
	return Mutant{Name: name, Edits: []Edit{{In: in, Old: words, New: others}}, Suite: by}
}

// conditions are the conditions at a node.
func conditions(n ast.Node) []ast.Node {
	switch n := n.(type) {
	case *ast.IfStmt:
		return []ast.Node{n.Cond}
	case *ast.ForStmt:
		if n.Cond != nil {
			return []ast.Node{n.Cond}
		}
	case *ast.SwitchStmt:
		if n.Tag != nil {
			return nil
		}
		var found []ast.Node
		for _, clause := range n.Body.List {
			for _, condition := range clause.(*ast.CaseClause).List { // a switch has nothing else
				found = append(found, condition)
			}
		}
		return found
	case *ast.BinaryExpr:
		if n.Op == token.LAND || n.Op == token.LOR {
			return []ast.Node{n, n.X, n.Y}
		}
	}
	return nil
}

// statements are the statement at a node, of those that can go.
func statements(n ast.Node) []ast.Node {
	switch n.(type) {
	case *ast.ExprStmt, *ast.AssignStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.IfStmt, *ast.RangeStmt:
		return []ast.Node{n}
	default:
		return nil
	}
}

// file is where the function of an edit is, or the file that it names.
func (e Edit) file(root string) (string, error) {
	dir, function := e.function()
	if function == "" {
		return filepath.Join(root, filepath.FromSlash(e.In)), nil
	}
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*.go"))
	if err != nil {
		return "", err
	}
	var found []string
	declared, name := declaration(function), []byte(function[strings.LastIndexByte(function, '.')+1:])
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if bytes.Contains(text, name) && declared.Match(text) {
			found = append(found, file)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s is in %d files, want one", e.In, len(found))
	}
	return found[0], nil
}

// function is the directory and the name of the function, which is empty where a file is named.
func (e Edit) function() (dir, name string) {
	slash := strings.LastIndexByte(e.In, '/') + 1
	last, function, _ := strings.Cut(e.In[slash:], ".")
	if e.by == nil && (function == "go" || function == "lua") {
		return e.In[:max(slash-1, 0)], ""
	}
	return e.In[:slash] + last, function
}

// declaration finds where a function begins, Type.Method or Function.
func declaration(function string) *regexp.Regexp {
	receiver, name, method := strings.Cut(function, ".")
	if !method {
		return regexp.MustCompile(`(?m)^func ` + receiver + `[\[(]`)
	}
	return regexp.MustCompile(`(?m)^func \((\w+ )?\*?` + receiver + `(\[\w+\])?\) ` + name + `\(`)
}

// made is the text of a file with the edit in it.
func (e Edit) made(text string) (string, error) {
	_, function := e.function()
	if function == "" {
		if n := strings.Count(text, e.Old); n != 1 {
			return "", fmt.Errorf("%s has %d times %q, want once", e.In, n, e.Old)
		}
		return strings.Replace(text, e.Old, e.New, 1), nil
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "", text, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	at := declaration(function).FindStringIndex(text)
	if at == nil {
		return "", fmt.Errorf("%s is not there", e.In)
	}
	body := slices.IndexFunc(parsed.Decls, func(d ast.Decl) bool { return fset.Position(d.Pos()).Offset == at[0] })
	var places [][2]int
	if e.by == nil {
		begin, end := span(fset, parsed.Decls[body])
		places = found(text[begin:end], e.Old, begin)
	} else {
		places = e.by.innermost(fset, parsed.Decls[body], text, e.Old)
	}
	if len(places) != 1 {
		return "", fmt.Errorf("%s has %q in %d places, want one", e.In, e.Old, len(places))
	}
	from, to := places[0][0], places[0][1]
	other := e.New
	if e.by != nil {
		other = e.by.becomes(text[from:to])
	}
	return text[:from] + other + text[to:], nil
}

// innermost are the places of a function with the words that have no other such place in them.
func (o *operator) innermost(fset *token.FileSet, function ast.Node, text, words string) (places [][2]int) {
	ast.Inspect(function, func(n ast.Node) bool {
		for _, place := range o.places(n) {
			from, to := span(fset, place)
			if at := [2]int{from, to}; len(found(text[from:to], words, 0)) > 0 && !slices.Contains(places, at) {
				places = append(places, at)
			}
		}
		return true
	})
	all := slices.Clone(places)
	return slices.DeleteFunc(places, func(p [2]int) bool {
		return slices.ContainsFunc(all, func(q [2]int) bool { return p != q && p[0] <= q[0] && q[1] <= p[1] })
	})
}

func span(fset *token.FileSet, n ast.Node) (from, to int) {
	return fset.Position(n.Pos()).Offset, fset.Position(n.End()).Offset
}

// found are the places of words in a text of Go, whatever the blanks between them. base is
// added to each.
func found(text, words string, base int) (places [][2]int) {
	all, wanted := scanned(text), scanned(words)
	for i := 0; i+len(wanted) <= len(all); i++ {
		if slices.EqualFunc(all[i:i+len(wanted)], wanted, func(a, b word) bool { return a.text == b.text }) {
			last := all[i+len(wanted)-1]
			places = append(places, [2]int{base + all[i].at, base + last.at + len(last.text)})
		}
	}
	return places
}

// word is a token of Go.
type word struct {
	text string
	at   int
}

func scanned(text string) (words []word) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, []byte(text), func(token.Position, string) {}, 0)
	for {
		pos, kind, literal := s.Scan()
		switch {
		case kind == token.EOF:
			return words
		case kind == token.SEMICOLON && literal == "\n":
			continue // was not written
		case literal == "":
			literal = kind.String()
		}
		words = append(words, word{literal, file.Offset(pos)})
	}
}
