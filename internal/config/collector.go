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
	most     int // bounds what is reported
	found    []Problem
	warnings []Problem
	// given is what references stand for, which no message shows.
	given []given
}

// add notes a problem with a value.
func (c *collector) add(at Problem, format string, args ...any) {
	c.find(RuleValue, at, format, args...)
}

// find notes what a rule has found at the place of a Problem.
func (c *collector) find(rule Rule, at Problem, format string, args ...any) {
	list := &c.warnings
	if rule.Severity() == Wrong {
		list = &c.found
	}
	if len(*list) < maxCollected {
		at.File, at.Message, at.Rule = c.file, fmt.Sprintf(format, args...), rule
		*list = append(*list, at)
	}
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
	for i, p := range list[:min(len(list), c.most)] {
		list[i].Message = maskedAt(c.given, p.Path, p.Message)
	}
	if more := len(list) - c.most; more > 0 {
		list = append(list[:c.most:c.most], Problem{File: c.file, Message: fmt.Sprintf("and %d more", more), Rule: list[c.most].Rule})
	}
	return list
}
