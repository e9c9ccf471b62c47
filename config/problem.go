package config

import (
	"fmt"
	"slices"
	"strings"
)

// MaxProblems bounds the problems that are reported at once.
const MaxProblems = 20

// maxCollected bounds the problems that are kept while looking for more; a
// file that breaks it has its first problems reported just the same.
const maxCollected = 10_000

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

// collector gathers problems and warnings in the order they are found.
type collector struct {
	file     string
	found    []Problem
	warnings []Problem
}

// add notes a problem.
func (c *collector) add(at position, format string, args ...any) {
	c.found = note(c.found, at.problem(c.file, fmt.Sprintf(format, args...)))
}

// warn notes a warning.
func (c *collector) warn(at position, format string, args ...any) {
	c.warnings = note(c.warnings, at.problem(c.file, fmt.Sprintf(format, args...)))
}

func note(list []Problem, p Problem) []Problem {
	if len(list) >= maxCollected {
		return list
	}
	return append(list, p)
}

// problems is what was added, by position, bounded; nil when nothing was.
func (c *collector) problems() Problems { return c.sorted(c.found) }

// warned is what was warned of, by position, bounded; nil when nothing was.
func (c *collector) warned() Problems { return c.sorted(c.warnings) }

func (c *collector) sorted(list []Problem) Problems {
	slices.SortStableFunc(list, byPosition)
	// An alias puts the same text in several places: one report is enough.
	list = slices.CompactFunc(list, func(a, b Problem) bool {
		return a.Line == b.Line && a.Column == b.Column && a.Message == b.Message
	})
	if more := len(list) - MaxProblems; more > 0 {
		list = append(list[:MaxProblems:MaxProblems], Problem{File: c.file, Message: fmt.Sprintf("and %d more", more)})
	}
	return list
}

func byPosition(a, b Problem) int {
	if a.Line != b.Line {
		return a.Line - b.Line
	}
	return a.Column - b.Column
}
