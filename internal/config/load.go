package config

import (
	"os"
	"path/filepath"
	"slices"
	"sync"

	"go.yaml.in/yaml/v4"
)

// Load reads, parses and checks the file at path, with secrets from this
// process's environment and files. The error is of type Problems.
func Load(path string) (*Config, error) { return whole(readConfig(path, MaxProblems)) }

// Parse parses and checks data; name stands for the file in messages. The
// error is of type Problems: everything that is wrong, by position, at most
// MaxProblems and a last one that says how many more there are.
func Parse(name string, data []byte, env Environment) (*Config, error) {
	return whole(examine(&collector{file: name, most: MaxProblems}, data, env))
}

// Examine is Load for whoever wants to know all that is wrong, without bound,
// and what is right beside it. What is wrong has its zero value or its default
// in the Config, which therefore must not be served when there are problems. It
// is nil when the file is not YAML: then that is the one problem.
func Examine(path string) (*Config, Problems) { return readConfig(path, maxCollected) }

// ExamineText is Examine of a text; name stands for the file in messages.
func ExamineText(name string, data []byte, env Environment) (*Config, Problems) {
	return examine(&collector{file: name, most: maxCollected}, data, env)
}

// whole is a config in which nothing is wrong, or what is.
func whole(c *Config, problems Problems) (*Config, error) {
	if problems != nil {
		return nil, problems
	}
	return c, nil
}

func readConfig(path string, most int) (*Config, Problems) {
	data, err := readBounded(path, MaxFileBytes)
	if err != nil {
		return nil, unreadable(path, "config file", err)
	}
	return examine(&collector{file: path, most: most}, data, System())
}

func unreadable(path, what string, err error) Problems {
	return Problems{{File: path, Message: "cannot read the " + what + ": " + reason(err), Rule: RuleSyntax}}
}

// directory is where the relative paths of a config file are seen from: its own directory,
// or what SIDECALL_DIR says, where the file stands in a place that is not to be written to.
func directory(file string) string {
	dir := filepath.Dir(file)
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		dir = "." // a pipe, whose place says nothing
	}
	if said := os.Getenv("SIDECALL_DIR"); said != "" {
		dir = said
	}
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir // the working directory is gone: it is seen from there
}

// from is a path as it is seen from a directory.
func from(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func examine(found *collector, data []byte, env Environment) (*Config, Problems) {
	if len(data) == 0 { // it is about to be written, or its disk was full
		found.find(RuleSyntax, Problem{Line: 1, Column: 1}, "the file is empty: if nothing is to be set, write {}")
	}
	tree := parse(found, data)
	if tree == nil {
		return nil, found.problems()
	}
	c := &Config{Source: &Source{File: found.file, root: tree, wide: new(sync.Map), Dir: directory(found.file)}}
	d := &decoder{env: env, dir: c.Dir, found: found}
	d.document(tree, c)
	c.given, c.local = found.given, slices.Clone(found.warnings)
	c.check(found, nil)
	c.warnings = found.warned()
	return c, found.problems()
}

// parse turns the text of a file into a tree without aliases and merges; nil where
// it finds anything wrong.
func parse(found *collector, data []byte) *yaml.Node {
	root := parseText(found, data)
	if root != nil {
		root = expand(root, found)
	}
	if found.found != nil {
		return nil
	}
	return root
}
