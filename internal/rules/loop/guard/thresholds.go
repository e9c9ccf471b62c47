package guard

import (
	"errors"
	"fmt"
)

const (
	// LogEntries is how many entries of a prompt the guard wants to be kept and
	// brought. More are of no use to it.
	LogEntries = 64
	// longestCycle is how many calls a round has at most.
	longestCycle = 3
	// togetherCount is how many of the calls count that were made at once. Whoever
	// makes eight searches at once has not ignored seven results; whoever does it
	// turn by turn should not be eight times as patient.
	togetherCount = 2
	// pause is how long nobody calls anything before somebody else is at work, in
	// milliseconds: a person has read what was said, and asks for something. A loop has
	// no such pauses, however slow its calls are. A program that names its prompts does
	// not need this; one whose conversation is one prompt does.
	pause Instant = 10 * 60 * 1000
)

// Limit is from which repetition on a rule speaks; the first time is 1. 0 is the
// rule's default, or what goes with the other number of the two; below 0 is never.
type Limit struct {
	// Nudge is said in the response.
	Nudge int
	// Refuse keeps the call from being sent. From here on nobody is nudged.
	Refuse int
}

// Thresholds are the limits of one profile. The zero value is the defaults, each of
// which a field below names as {nudge, refuse}; a number below 0 switches off.
type Thresholds struct {
	// SameCall counts calls: {3, 4}. Measured on recorded runs, it is what no run that
	// succeeded ever did.
	SameCall Limit
	// Cycle counts rounds: {2, 3}. The third is refused when it would be complete.
	Cycle Limit
	// SameError counts calls: {4, 6}.
	SameError Limit
	// SameResult counts calls: {5, 25}.
	SameResult Limit
	// Malformed counts calls: {3, 5}.
	Malformed Limit
	// DuplicateEffect counts, within a batch, calls that do something each time:
	// {never, 2}.
	DuplicateEffect Limit
	// DuplicateRead counts, within a batch, calls that may be repeated: {2, 4}.
	DuplicateRead Limit
	// AcrossEffects counts what SameCall, SameError and SameResult do, also the calls
	// before something new was done: {9, 25}. When it is off, nothing counts that came
	// before that.
	AcrossEffects Limit
	// Escalate and Stop are from which refusal on a person has to be asked, and the
	// program is told to stop: 2 and 4.
	Escalate, Stop int
}

var defaults = Thresholds{
	SameCall:        Limit{3, 4},
	Cycle:           Limit{2, 3},
	SameError:       Limit{4, 6},
	SameResult:      Limit{5, 25},
	Malformed:       Limit{3, 5},
	DuplicateEffect: Limit{-1, 2},
	DuplicateRead:   Limit{2, 4},
	AcrossEffects:   Limit{9, 25},
	Escalate:        2,
	Stop:            4,
}

// field is a limit of the thresholds by its name.
type field struct {
	name  string
	limit *Limit
	// unit is by how many entries of the log the limit is seen.
	unit int
}

func (t *Thresholds) fields() [8]field {
	return [...]field{
		{"same_call", &t.SameCall, 1},
		{"cycle", &t.Cycle, longestCycle},
		{"same_error", &t.SameError, 1},
		{"same_result", &t.SameResult, 1},
		{"malformed", &t.Malformed, 1},
		{"duplicate_effect", &t.DuplicateEffect, 1},
		{"duplicate_read", &t.DuplicateRead, 1},
		{"across_effects", &t.AcrossEffects, 1},
	}
}

// resolved puts the defaults in.
func (t Thresholds) resolved() Thresholds {
	usual := defaults
	usuals := usual.fields()
	for i, f := range t.fields() {
		*f.limit = f.limit.or(*usuals[i].limit)
	}
	if t.Stop == 0 {
		t.Stop = max(defaults.Stop, t.Escalate)
	}
	if t.Escalate == 0 {
		t.Escalate = defaults.Escalate
		if t.Stop > 0 {
			t.Escalate = min(t.Escalate, t.Stop)
		}
	}
	return t
}

// or is the limit with its default put in, which gives way to the number that was
// set.
func (l Limit) or(usual Limit) Limit {
	set := l
	if set.Refuse == 0 {
		if l.Refuse = usual.Refuse; set.Nudge > 0 {
			l.Refuse = max(l.Refuse, set.Nudge+1)
		}
	}
	if set.Nudge == 0 {
		if l.Nudge = usual.Nudge; usual.Nudge > 0 && set.Refuse > 0 {
			l.Nudge = max(2, min(l.Nudge, set.Refuse-1))
		}
	}
	return l
}

// Validate reports every threshold that cannot be meant, by its name, with what is
// wanted of it; nil when there is none.
func (t Thresholds) Validate() error {
	var wrong []error
	for _, f := range t.fields() {
		for _, n := range [...]struct {
			name  string
			value int
		}{{"nudge", f.limit.Nudge}, {"refuse", f.limit.Refuse}} {
			if most := LogEntries / f.unit; n.value == 1 || n.value > most {
				wrong = append(wrong, fmt.Errorf("%s.%s: %d, want 2 to %d, 0 for the default, or less for never", f.name, n.name, n.value, most))
			}
		}
		if f.limit.Refuse > 0 && f.limit.Nudge > f.limit.Refuse {
			wrong = append(wrong, fmt.Errorf("%s.nudge: %d, want at most %d, from where on it is refused", f.name, f.limit.Nudge, f.limit.Refuse))
		}
	}
	for _, n := range [...]struct {
		name  string
		value int
	}{{"escalate", t.Escalate}, {"stop", t.Stop}} {
		if n.value > LogEntries {
			wrong = append(wrong, fmt.Errorf("%s: %d, want 1 to %d, 0 for the default, or less for never", n.name, n.value, LogEntries))
		}
	}
	if t.Stop > 0 && t.Escalate > t.Stop {
		wrong = append(wrong, fmt.Errorf("escalate: %d, want at most %d, from where on the program is told to stop", t.Escalate, t.Stop))
	}
	return errors.Join(wrong...)
}

// off reports that no rule speaks.
func (t *Thresholds) off() bool {
	for _, f := range t.fields() {
		if f.limit == &t.AcrossEffects {
			continue // which says nothing by itself
		}
		if f.limit.Nudge > 0 || f.limit.Refuse > 0 {
			return false
		}
	}
	return true
}
