package guard_test

import (
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/rules/loop/guard"
)

func TestDefaults(t *testing.T) {
	for name, c := range map[string]struct{ set, want guard.Limit }{
		"none":                        {guard.Limit{}, guard.Limit{Nudge: 3, Refuse: 4}},
		"both":                        {guard.Limit{Nudge: 7, Refuse: 9}, guard.Limit{Nudge: 7, Refuse: 9}},
		"a later refusal":             {guard.Limit{Refuse: 9}, guard.Limit{Nudge: 3, Refuse: 9}},
		"an earlier refusal":          {guard.Limit{Refuse: 3}, guard.Limit{Nudge: 2, Refuse: 3}},
		"the earliest refusal":        {guard.Limit{Refuse: 2}, guard.Limit{Nudge: 2, Refuse: 2}},
		"a later nudge":               {guard.Limit{Nudge: 6}, guard.Limit{Nudge: 6, Refuse: 7}},
		"an earlier nudge":            {guard.Limit{Nudge: 2}, guard.Limit{Nudge: 2, Refuse: 4}},
		"no nudge":                    {guard.Limit{Nudge: -1}, guard.Limit{Nudge: -1, Refuse: 4}},
		"no refusal":                  {guard.Limit{Refuse: -1}, guard.Limit{Nudge: 3, Refuse: -1}},
		"no refusal, and later nudge": {guard.Limit{Nudge: 20, Refuse: -1}, guard.Limit{Nudge: 20, Refuse: -1}},
	} {
		g, err := guard.New(guard.Thresholds{SameCall: c.set})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := g.Thresholds().SameCall; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	for name, c := range map[string]struct{ escalate, stop, wantEscalate, wantStop int }{
		"none":               {0, 0, 2, 4},
		"a later escalation": {9, 0, 9, 9},
		"an earlier stop":    {0, 1, 1, 1},
		"no stop":            {0, -1, 2, -1},
		"no escalation":      {-1, 0, -1, 4},
	} {
		g, err := guard.New(guard.Thresholds{Escalate: c.escalate, Stop: c.stop})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := g.Thresholds(); got.Escalate != c.wantEscalate || got.Stop != c.wantStop {
			t.Errorf("%s: %d, %d, want %d, %d", name, got.Escalate, got.Stop, c.wantEscalate, c.wantStop)
		}
	}
}

// Each threshold that cannot be meant is named, with what is wanted of it.
func TestThresholdsThatCannotBeMeant(t *testing.T) {
	for want, set := range map[string]guard.Thresholds{
		"same_call.refuse: 1, want 2 to 64, 0 for the default, or less for never":        {SameCall: guard.Limit{Refuse: 1}},
		"same_call.nudge: 1, want 2 to 64, 0 for the default, or less for never":         {SameCall: guard.Limit{Nudge: 1}},
		"cycle.refuse: 22, want 2 to 21, 0 for the default, or less for never":           {Cycle: guard.Limit{Refuse: 22}},
		"same_error.nudge: 5, want at most 4, from where on it is refused":               {SameError: guard.Limit{Nudge: 5, Refuse: 4}},
		"same_result.refuse: 65, want 2 to 64, 0 for the default, or less for never":     {SameResult: guard.Limit{Refuse: 65}},
		"malformed.refuse: 65, want 2 to 64, 0 for the default, or less for never":       {Malformed: guard.Limit{Refuse: 65}},
		"duplicate_effect.refuse: 1, want 2 to 64, 0 for the default, or less for never": {DuplicateEffect: guard.Limit{Refuse: 1}},
		"duplicate_read.nudge: 3, want at most 2, from where on it is refused":           {DuplicateRead: guard.Limit{Nudge: 3, Refuse: 2}},
		"across_effects.nudge: 65, want 2 to 64, 0 for the default, or less for never":   {AcrossEffects: guard.Limit{Nudge: 65}},
		"stop: 65, want 1 to 64, 0 for the default, or less for never":                   {Stop: 65},
		"escalate: 5, want at most 3, from where on the program is told to stop":         {Escalate: 5, Stop: 3},
	} {
		g, err := guard.New(set)
		if g != nil || err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	several := guard.Thresholds{SameCall: guard.Limit{Refuse: 1}, Malformed: guard.Limit{Nudge: 99}}
	if err := several.Validate(); err == nil || !strings.Contains(err.Error(), "same_call.refuse") || !strings.Contains(err.Error(), "malformed.nudge") {
		t.Errorf("%v, want both named", err)
	}
}
