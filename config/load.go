package config

import (
	"os"
	"path/filepath"
)

// Load reads, parses and checks the file at path, with secrets from this
// process's environment and files. The error is of type Problems.
func Load(path string) (*Config, error) {
	data, err := readBounded(path, MaxFileBytes)
	if err != nil {
		return nil, Problems{{File: path, Message: "cannot read the config file: " + reason(err), Rule: RuleSyntax}}
	}
	return Parse(path, data, System())
}

// Parse parses and checks data; name stands for the file in messages. The
// error is of type Problems: everything that is wrong, by position, at most
// MaxProblems and a last one that says how many more there are.
func Parse(name string, data []byte, env Environment) (*Config, error) {
	c, problems := examine(&collector{file: name}, data, env)
	if problems != nil {
		return nil, problems
	}
	return c, nil
}

// Examine is Load for whoever wants to know all that is wrong, without bound,
// and what is right beside it. What is wrong has its zero value or its default
// in the Config, which therefore must not be served when there are problems. It
// is nil when the file is not YAML: then that is the one problem.
func Examine(path string) (*Config, Problems) {
	data, err := readBounded(path, MaxFileBytes)
	if err != nil {
		return nil, Problems{{File: path, Message: "cannot read the config file: " + reason(err), Rule: RuleSyntax}}
	}
	return ExamineText(path, data, System())
}

// ExamineText is Examine of a text; name stands for the file in messages.
func ExamineText(name string, data []byte, env Environment) (*Config, Problems) {
	return examine(&collector{file: name, most: maxCollected}, data, env)
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

// Dir is the directory that relative paths are seen from, absolute, and in which commands
// run for which the file names none.
func (c *Config) Dir() string { return c.source.dir }

func examine(found *collector, data []byte, env Environment) (*Config, Problems) {
	if len(data) == 0 { // it is about to be written, or its disk was full
		return nil, Problems{{File: found.file, Line: 1, Column: 1, Message: "the file is empty: if nothing is to be set, write {}", Rule: RuleSyntax}}
	}
	root, bad := parseText(found.file, data)
	if bad != nil {
		bad.Rule = RuleSyntax
		return nil, Problems{*bad}
	}
	tree := expand(root, found)
	if tree == nil {
		for i := range found.found {
			found.found[i].Rule = RuleSyntax
		}
		return nil, found.problems()
	}
	c := &Config{source: &source{file: found.file, root: tree, dir: directory(found.file)}}
	d := &decoder{env: env, dir: c.source.dir, found: found}
	d.document(tree, c)
	c.given = found.given
	c.check(found, nil)
	c.warnings = found.warned()
	return c, found.problems()
}
