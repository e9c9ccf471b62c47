package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/tool"
)

// Loop refuses a call that goes round in circles; wait is from when on it would be
// none of them any more, 0 when time does not help.
func Loop(v guard.Verdict) tool.Error {
	e := tool.Error{
		Code:       tool.CodeLoopDetected,
		Constraint: fmt.Sprintf("%s: refused from %s on", whatRepeats(v), ordinal(v.Limit)),
		Received:   fmt.Sprintf("%s, since %s", ordinal(v.Count), since(v)),
	}
	if v.Rule == guard.Duplicate {
		e.Received = fmt.Sprintf("call %d of the batch again", v.First+1)
	}
	e.Hint = "Nothing was sent. " + wayOut(v)
	switch v.Level {
	case guard.Stop:
		e.Hint = "Nothing was sent. Stop: make no more tool calls for this prompt. Tell the user what you tried, what was done and what was not, and what is in the way."
	case guard.Escalate:
		e.Hint += " Ask the user before you go on: this was refused before."
	case guard.Pass, guard.Nudge, guard.Refuse:
	}
	return e
}

// Nudge says of a call that was made that it repeats others; one or two sentences.
func Nudge(v guard.Verdict) string {
	next := "Another approach is needed."
	if v.Limit > 0 {
		next = fmt.Sprintf("From %s on it is refused.", ordinal(v.Limit))
	}
	if v.Rule == guard.Duplicate {
		return fmt.Sprintf("This is the same call as call %d of this batch. Make it once.", v.First+1)
	}
	return fmt.Sprintf("This is %s: %s. %s %s", ordinal(v.Count), whatRepeats(v), wayOut(v), next)
}

// whatRepeats names what is counted.
func whatRepeats(v guard.Verdict) string {
	switch v.Rule {
	case guard.SameCall:
		return fmt.Sprintf("%s with the same arguments, or the same in other words, and the same outcome", v.Tool)
	case guard.Cycle:
		return fmt.Sprintf("the same round of calls (%s) with the same outcomes", strings.Join(v.Round, ", "))
	case guard.SameError:
		return fmt.Sprintf("the same error of %s, whatever the arguments", v.Tool)
	case guard.SameResult:
		return fmt.Sprintf("nothing found by %s, whatever the arguments", v.Tool)
	case guard.Malformed:
		return "an invalid or unknown call in a row"
	case guard.Duplicate:
		return fmt.Sprintf("%s with the same arguments in one batch", v.Tool)
	}
	panic(fmt.Sprintf("a rule that is none: %d", v.Rule))
}

// wayOut is what leads out of it.
func wayOut(v guard.Verdict) string {
	switch v.Rule {
	case guard.SameCall:
		return fmt.Sprintf("Calling %s like this again leads to the same: use what it said, change the arguments, try another tool, or tell the user what is in the way.", v.Tool)
	case guard.Cycle:
		return "These calls lead back to where they began: take another approach, or tell the user what is in the way."
	case guard.SameError:
		return fmt.Sprintf("Other arguments do not help: find out why %s fails, use another tool, or tell the user.", v.Tool)
	case guard.SameResult:
		return fmt.Sprintf("Other arguments of %s tell nothing new: use what you have, look elsewhere, or tell the user what was not found.", v.Tool)
	case guard.Malformed:
		return "Read the schema of the tool, and the names of the tools you were given, before the next call; ask the user for what you do not know."
	case guard.Duplicate:
		return "Make it once. If it is meant twice, make it again in the next turn, after you have seen the result of the first."
	}
	panic(fmt.Sprintf("a rule that is none: %d", v.Rule))
}

func since(v guard.Verdict) string { return v.Since.Time().UTC().Format(time.RFC3339) }

// ordinal is a count in words: the 4th time.
func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("the %d%s time", n, suffix)
}
