package config

import (
	"cmp"
	"fmt"
	"slices"
)

// maxCollected bounds the problems that are kept while looking for more; a
// file that breaks it has its first problems reported just the same.
const maxCollected = 10_000

// collector gathers problems and warnings in the order they are found.
type collector struct {
	file string
	// most bounds what is reported; 0 for MaxProblems.
	most     int
	found    []Problem
	warnings []Problem
	// given is what references stand for, which no message shows.
	given []given
}

// add notes a problem with a value.
func (c *collector) add(at position, format string, args ...any) {
	c.find(RuleValue, at, format, args...)
}

// find notes what a rule has found.
func (c *collector) find(rule Rule, at position, format string, args ...any) {
	p := at.problem(c.file, fmt.Sprintf(format, args...))
	p.Rule = rule
	if rule.Severity() == Wrong {
		c.found = note(c.found, p)
	} else {
		c.warnings = note(c.warnings, p)
	}
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
	SortProblems(list)
	// An alias puts the same text in several places: one report is enough.
	list = slices.CompactFunc(list, func(a, b Problem) bool {
		return a.Line == b.Line && a.Column == b.Column && a.Message == b.Message
	})
	most := cmp.Or(c.most, MaxProblems)
	for i, p := range list[:min(len(list), most)] {
		list[i].Message = maskedAt(c.given, p.Path, p.Message)
	}
	if more := len(list) - most; more > 0 {
		list = append(list[:most:most], Problem{File: c.file, Message: fmt.Sprintf("and %d more", more), Rule: list[most].Rule})
	}
	return list
}
