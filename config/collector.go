package config

import (
	"fmt"
	"slices"
)

// maxCollected bounds the problems that are kept while looking for more; a
// file that breaks it has its first problems reported just the same.
const maxCollected = 10_000

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
