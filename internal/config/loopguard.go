package config

import "fmt"

// LoopGuard has the thresholds of a profile's loop guard. A number that is 0 is the
// guard's default, and -1 is never.
type LoopGuard struct {
	Off             bool      `yaml:"off" doc:"No loop is found in this profile."`
	SameCall        LoopLimit `yaml:"same_call" doc:"The same call with the same outcome. Without this key: nudge at 3, refuse at 4."`
	Cycle           LoopLimit `yaml:"cycle" doc:"Rounds of two or three calls with the same outcomes. Without this key: nudge at 2, refuse at 3."`
	SameError       LoopLimit `yaml:"same_error" doc:"The same error of a tool, whatever the arguments. Without this key: nudge at 4, refuse at 6."`
	SameResult      LoopLimit `yaml:"same_result" doc:"A read_only tool finds nothing, whatever the arguments. Without this key: nudge at 5, refuse at 25."`
	Malformed       LoopLimit `yaml:"malformed" doc:"Invalid and unknown calls in a row. Without this key: nudge at 3, refuse at 5."`
	DuplicateEffect LoopLimit `yaml:"duplicate_effect" doc:"The same call within one batch, of a tool that does something each time. Without this key: no nudge, refuse at 2."`
	DuplicateRead   LoopLimit `yaml:"duplicate_read" doc:"The same call within one batch, of a tool that may be repeated. Without this key: nudge at 2, refuse at 4."`
	AcrossEffects   LoopLimit `yaml:"across_effects" doc:"As same_call, same_error and same_result, of calls between which something new was done; -1 when those before it do not count. Without this key: nudge at 9, refuse at 25."`
	Escalate        int       `yaml:"escalate" doc:"From which refusal in a row on a person has to be asked; -1 for never. Without this key: 2." min:"-1" max:"64"`
	Stop            int       `yaml:"stop" doc:"From which refusal in a row on the program is told to stop; -1 for never. Without this key: 4." min:"-1" max:"64"`
}

// LoopLimit is from which repetition on a rule speaks; the first time is 1.
type LoopLimit struct {
	Nudge  int `yaml:"nudge" doc:"From here on the response says so; -1 for never." min:"-1" max:"64"`
	Refuse int `yaml:"refuse" doc:"From here on nothing is sent; -1 for never." min:"-1" max:"64"`
}

// mostRounds is how many rounds of a cycle are remembered.
const mostRounds = 21

func (l LoopLimit) check(w within) {
	for key, value := range map[string]int{"nudge": l.Nudge, "refuse": l.Refuse} {
		if value == 1 {
			w.in(key).bad("the first time is no repetition: expected 2 or more, or -1 for never")
		}
	}
	if l.Refuse > 0 && l.Nudge > l.Refuse {
		w.in("nudge").bad(fmt.Sprintf("it is refused from %d on: expected at most that", l.Refuse))
	}
}

func (g LoopGuard) check(w within) {
	for key, value := range map[string]int{"nudge": g.Cycle.Nudge, "refuse": g.Cycle.Refuse} {
		if value > mostRounds {
			w.in("cycle", key).bad(fmt.Sprintf("%d rounds are more than are remembered: expected at most %d", value, mostRounds))
		}
	}
	if g.Stop > 0 && g.Escalate > g.Stop {
		w.in("escalate").bad(fmt.Sprintf("the program is told to stop from refusal %d on: expected at most that", g.Stop))
	}
}
