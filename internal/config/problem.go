package config

import (
	"fmt"
	"strings"
)

// MaxProblems bounds the problems that a start reports at once; Examine reports
// them all.
const MaxProblems = 20

// Problem is one thing wrong with, or worth knowing about, a config file. No
// message ever holds the value of a reference or of a Secret.
type Problem struct {
	File string
	// Line and Column count from 1, columns in characters; 0 when the problem
	// has no place in the file.
	Line, Column int
	// Path names the key: tools.get_order.errors[0].code. Empty for the file
	// as a whole.
	Path    string
	Message string
	// Rule names what it is about.
	Rule Rule
}

// Error renders the problem as file:line:column: path: message.
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Below reports whether the path of a Problem is another, or leads to something in it.
func Below(path, of string) bool {
	rest, ok := strings.CutPrefix(path, of)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Problems is everything wrong with a config file, by position.
type Problems []Problem

// Error renders one problem per line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}
