package guard_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/recorded"
)

var update = flag.Bool("update", false, "write the golden files")

// effects are what the tools of the recorded runs do; all others have an effect.
var effects = map[string]tool.Effect{
	"get_user_details": tool.ReadOnly, "get_reservation_details": tool.ReadOnly, "list_all_airports": tool.ReadOnly,
	"search_direct_flight": tool.ReadOnly, "search_onestop_flight": tool.ReadOnly,
	"calculate": tool.ReadOnly, "think": tool.ReadOnly,
}

// fired counts, by rule, the calls that were nudged and refused in one run.
type fired map[guard.Rule]*[2]int

// replay makes the calls of a run. What is refused is left out; those after it come
// as they were recorded.
func replay(tr *recorded.Run, l *loop, effect func(string) tool.Effect) fired {
	l.t.Helper()
	counts := fired{}
	for _, prompt := range tr.Prompts {
		l.newPrompt()
		for _, c := range prompt {
			w := turn{tool: c.Tool, args: c.Arguments, effect: effect(c.Tool), kind: guard.OK, outcome: guard.Sum([]byte(c.Result)), empty: foundNothing(c.Result)}
			if c.IsError {
				var args any
				if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil {
					l.t.Fatal(err)
				}
				w.kind = guard.Failed
				w.outcome = guard.Failure(tool.Error{Code: tool.CodeBusinessRule, Received: c.Result}, args)
			}
			v := l.make(w)
			if v.Level == guard.Pass {
				continue
			}
			if counts[v.Rule] == nil {
				counts[v.Rule] = new([2]int)
			}
			if v.Level.Refused() {
				counts[v.Rule][1]++
			} else {
				counts[v.Rule][0]++
			}
		}
	}
	return counts
}

// No call of a run that succeeded is refused, whatever is declared of the tools.
func TestRunsThatSucceededAreLeftAlone(t *testing.T) {
	all := recorded.Airline(t)
	for name, effect := range map[string]func(string) tool.Effect{
		"as they are":    func(name string) tool.Effect { return effects[name] },
		"nothing said":   func(string) tool.Effect { return tool.NonIdempotent },
		"all of it read": func(string) tool.Effect { return tool.ReadOnly },
	} {
		succeeded := 0
		for _, tr := range all {
			if !tr.Succeeded {
				continue
			}
			succeeded++
			for rule, counts := range replay(&tr, newLoop(t, guard.Thresholds{}), effect) {
				if counts[1] > 0 {
					t.Errorf("%s: task %d, trial %d: %d calls refused by %v", name, tr.Task, tr.Trial, counts[1], rule)
				}
			}
		}
		if succeeded != 49 {
			t.Errorf("%d runs that succeeded, want 49", succeeded)
		}
	}
}

// The table of the rules over the recorded runs.
func TestTableOfRules(t *testing.T) {
	type row struct{ runs, nudged, refused [2]int } // in runs that failed, that succeeded
	rows := map[guard.Rule]*row{}
	for rule := guard.SameCall; rule <= guard.Duplicate; rule++ {
		rows[rule] = &row{}
	}
	calls, runs := 0, [2]int{}
	for _, tr := range recorded.Airline(t) {
		end := 0
		if tr.Succeeded {
			end = 1
		}
		runs[end]++
		for _, prompt := range tr.Prompts {
			calls += len(prompt)
		}
		for rule, counts := range replay(&tr, newLoop(t, guard.Thresholds{}), func(name string) tool.Effect { return effects[name] }) {
			r := rows[rule]
			r.runs[end]++
			r.nudged[end] += counts[0]
			r.refused[end] += counts[1]
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%d recorded runs, %d calls: %d runs failed, %d succeeded\n\n", runs[0]+runs[1], calls, runs[0], runs[1])
	fmt.Fprintf(&table, "| rule | fired in runs that failed | nudged, refused calls there | fired in runs that succeeded | nudged, refused calls there |\n|---|---|---|---|---|\n")
	for rule := guard.SameCall; rule <= guard.Duplicate; rule++ {
		r := rows[rule]
		fmt.Fprintf(&table, "| `%v` | %d | %d, %d | %d | %d, %d |\n", rule, r.runs[0], r.nudged[0], r.refused[0], r.runs[1], r.nudged[1], r.refused[1])
	}
	table.WriteString("\n" + tighter(t))
	t.Log("\n" + table.String())
	golden(t, "rules.md", table.String())
}

// tighter is how many runs would have been refused a call by each rule alone with
// tighter limits: how far the limits are from runs that succeed.
func tighter(t *testing.T) string {
	t.Helper()
	var table strings.Builder
	table.WriteString("Runs that one rule alone, refusing from another count on, would have refused a call: failed, succeeded\n\n")
	table.WriteString("| rule | from the 2nd | from the 3rd | from the 4th | from the 5th |\n|---|---|---|---|---|\n")
	off := guard.Limit{Nudge: -1, Refuse: -1}
	all := recorded.Airline(t)
	for _, of := range []struct {
		rule  guard.Rule
		limit func(*guard.Thresholds) *guard.Limit
	}{
		{guard.SameCall, func(t *guard.Thresholds) *guard.Limit { return &t.SameCall }},
		{guard.Cycle, func(t *guard.Thresholds) *guard.Limit { return &t.Cycle }},
		{guard.SameError, func(t *guard.Thresholds) *guard.Limit { return &t.SameError }},
		{guard.SameResult, func(t *guard.Thresholds) *guard.Limit { return &t.SameResult }},
	} {
		fmt.Fprintf(&table, "| `%v` |", of.rule)
		for refuse := 2; refuse <= 5; refuse++ {
			alone := guard.Thresholds{SameCall: off, Cycle: off, SameError: off, SameResult: off, Malformed: off}
			*of.limit(&alone) = guard.Limit{Nudge: -1, Refuse: refuse}
			failed, succeeded := 0, 0
			for _, tr := range all {
				counts := replay(&tr, newLoop(t, alone), func(name string) tool.Effect { return effects[name] })[of.rule]
				switch {
				case counts == nil || counts[1] == 0:
				case tr.Succeeded:
					succeeded++
				default:
					failed++
				}
			}
			fmt.Fprintf(&table, " %d, %d |", failed, succeeded)
		}
		table.WriteString("\n")
	}
	return table.String()
}

// golden compares text with a file below testdata.
func golden(t *testing.T, file, text string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s has changed (go test ./internal/rules/loop/guard -update writes it):\n%s", path, text)
	}
}
