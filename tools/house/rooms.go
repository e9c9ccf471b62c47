package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// room is a package of this module: its files, and which of them use what others
// declare. Generated files and tests are no part of it.
type room struct {
	name   string
	files  []string
	arrows []arrow
	// uses are the names that an arrow stands for, sorted.
	uses map[arrow][]string
	// methods is how many methods each of its types has.
	methods map[string]int
	// fields is how many fields each of its structs has, those without a name and those within
	// functions too, by where it begins: file.go:line. What is embedded counts as one.
	fields map[string]int
}

// arrow leads from a file to one of which it uses something: a function, a type, a
// method, a field, a variable or a constant.
type arrow struct{ from, to string }

func (a arrow) String() string { return a.from + " -> " + a.to }

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles, CgoFiles       []string
	DepOnly                 bool
	Module                  *struct {
		Main bool
		Path string
	}
}

// rooms are the packages of the module that a pattern of go list names, as they are built
// without tags.
func rooms(pattern string) ([]room, error) {
	out, err := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,CgoFiles,Module,DepOnly", pattern).Output() //nolint:noctx // a pattern of this program's own
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("go list: %w: %s", err, exit.Stderr)
		}
		return nil, err
	}
	compiled := make(map[string]string)
	var own []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := decoder.Decode(&p) //nolint:musttag // the names are go list's own
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		compiled[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Main && !p.DepOnly {
			own = append(own, p)
		}
	}
	var all []room
	for _, p := range own {
		r, err := roomOf(&p, func(path string) (io.ReadCloser, error) { return os.Open(compiled[path]) })
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b room) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// roomOf reads one package; lookup opens what the compiler has made of another one.
func roomOf(p *listed, lookup importer.Lookup) (room, error) {
	r := room{name: strings.TrimPrefix(p.ImportPath, p.Module.Path+"/"), uses: make(map[arrow][]string), methods: make(map[string]int), fields: make(map[string]int)}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return r, err
		}
		files = append(files, file)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	checker := types.Config{Importer: importer.ForCompiler(set, "gc", lookup), FakeImportC: true}
	checked, err := checker.Check(p.ImportPath, set, files, info)
	if err != nil {
		return r, err
	}
	nameOf := func(at token.Pos) string { return filepath.Base(set.Position(at).Filename) }
	generated := make(map[string]bool)
	for _, file := range files {
		name := nameOf(file.FileStart)
		if generated[name] = ast.IsGenerated(file); generated[name] {
			continue
		}
		r.files = append(r.files, name)
		r.count(set, file)
	}
	for _, name := range checked.Scope().Names() {
		object, isType := checked.Scope().Lookup(name).(*types.TypeName)
		if !isType || generated[nameOf(object.Pos())] {
			continue
		}
		if named, ok := object.Type().(*types.Named); ok {
			r.methods[name] = named.NumMethods()
		}
	}
	for used, object := range info.Uses {
		if object.Pkg() != checked || !declared(object, checked) {
			continue
		}
		a := arrow{nameOf(used.Pos()), nameOf(object.Pos())}
		if a.from != a.to && !generated[a.from] && !generated[a.to] && !slices.Contains(r.uses[a], object.Name()) {
			r.uses[a] = append(r.uses[a], object.Name())
		}
	}
	for a, names := range r.uses {
		slices.Sort(names)
		r.arrows = append(r.arrows, a)
	}
	slices.SortFunc(r.arrows, func(a, b arrow) int { return strings.Compare(a.String(), b.String()) })
	return r, nil
}

// count counts the fields of the structs of a file; of those in one line the most.
func (r *room) count(set *token.FileSet, file *ast.File) {
	for n := range ast.Preorder(file) {
		if s, ok := n.(*ast.StructType); ok {
			at := set.Position(s.Pos())
			key := fmt.Sprintf("%s:%d", filepath.Base(at.Filename), at.Line)
			r.fields[key] = max(r.fields[key], s.Fields.NumFields())
		}
	}
}

// declared reports whether an object is the package's, or a method or field of one.
func declared(object types.Object, in *types.Package) bool {
	switch v := object.(type) {
	case *types.Var:
		return v.IsField() || v.Parent() == in.Scope()
	case *types.Func, *types.Const, *types.TypeName:
		return object.Parent() == nil || object.Parent() == in.Scope()
	default:
		return false
	}
}
