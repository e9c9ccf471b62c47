package guard_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/tool"
)

// recording is a case of the corpus: a prompt, call by call, and what the guard has
// to say of each. testdata/README.md explains the fields.
type recording struct {
	About string            `yaml:"about"`
	Tools map[string]string `yaml:"tools"`
	Steps []step            `yaml:"steps"`

	name string
}

type step struct {
	recordedCall `yaml:",inline"`

	Times     int            `yaml:"times"`
	Wait      time.Duration  `yaml:"wait"`
	NewPrompt bool           `yaml:"new_prompt"`
	Batch     []recordedCall `yaml:"batch"`
	AtOnce    []recordedCall `yaml:"at_once"`
	Lane      []recordedCall `yaml:"lane"`
}

type recordedCall struct {
	Tool        string    `yaml:"tool"`
	Args        any       `yaml:"args"`
	ArgsJSON    string    `yaml:"args_json"`
	ID          string    `yaml:"id"`
	Result      string    `yaml:"result"`
	ResultTimes int       `yaml:"result_times"`
	Shown       string    `yaml:"shown"`
	Code        tool.Code `yaml:"code"`
	Said        string    `yaml:"said"`
	TurnedAway  bool      `yaml:"turned_away"`
	Want        string    `yaml:"want"`
}

// corpus reads the recordings in a folder of testdata.
func corpus(t testing.TB, folder string) (all []recording) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings in testdata/%s: %v", folder, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r recording
		dec := yaml.NewDecoder(bytes.NewReader(text))
		dec.KnownFields(true)
		if err := dec.Decode(&r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		r.name = folder + "/" + strings.TrimSuffix(filepath.Base(file), ".yaml")
		all = append(all, r)
	}
	return all
}

// judged is what was said of one call, and what should have been.
type judged struct{ call, want, got string }

// replay makes the calls of a recording. asShown hashes what a model is shown of a
// result instead of all of it.
func (r *recording) replay(l *loop, asShown bool) (all []judged) {
	l.t.Helper()
	made := 0
	fill := func(c recordedCall, n int) turn { made++; return r.turn(l, c, n, made, asShown) }
	for _, s := range r.Steps {
		l.now += guard.Instant(s.Wait.Milliseconds())
		if s.NewPrompt {
			l.newPrompt()
		}
		for n := 1; n <= max(s.Times, 1); n++ {
			if s.Tool != "" {
				w := fill(s.recordedCall, n)
				all = append(all, judged{w.tool + " " + w.args, s.Want, says(l.make(w))})
			}
			calls := slices.Concat(s.AtOnce, s.Batch, s.Lane)
			var turns []turn
			for _, c := range calls {
				turns = append(turns, fill(c, n))
			}
			var verdicts []guard.Verdict
			switch batch := guard.Sum([]byte{byte(made)}); {
			case s.AtOnce != nil:
				verdicts = l.together(turns, 0)
			case s.Batch != nil:
				verdicts = l.together(turns, batch)
			case s.Lane != nil:
				verdicts = l.lane(turns, batch)
			}
			for i, v := range verdicts {
				all = append(all, judged{turns[i].tool + " " + turns[i].args, calls[i].Want, says(v)})
			}
		}
	}
	return all
}

// turn fills in the n of a call that is made several times, and in what is shown
// the number of the call.
func (r *recording) turn(l *loop, c recordedCall, n, made int, asShown bool) turn {
	l.t.Helper()
	number := strings.NewReplacer(`"$n"`, strconv.Itoa(n), "$n", strconv.Itoa(n))
	args := c.ArgsJSON
	if args == "" {
		if c.Args == nil {
			c.Args = map[string]any{}
		}
		text, err := json.Marshal(c.Args)
		if err != nil {
			l.t.Fatalf("%s: %v", r.name, err)
		}
		args = string(text)
	}
	w := turn{tool: c.Tool, args: number.Replace(args), id: c.ID, turnedAway: c.TurnedAway}
	for word := range strings.FieldsSeq(r.Tools[c.Tool]) {
		if word == "polling" {
			w.poll = true
			continue
		}
		effect, err := tool.ParseEffect(word)
		if err != nil {
			l.t.Fatalf("%s: %v", r.name, err)
		}
		w.effect = effect
	}
	if c.Code == "" {
		w.kind = guard.OK
		result := strings.Repeat(number.Replace(c.Result), max(c.ResultTimes, 1))
		if asShown && c.Shown != "" {
			result = strings.ReplaceAll(c.Shown, "$i", strconv.Itoa(made))
		}
		w.outcome, w.empty = guard.Sum([]byte(result)), foundNothing(result)
		return w
	}
	switch c.Code {
	case tool.CodeInvalidArgs:
		w.kind = guard.Invalid
	case tool.CodeUnknownTool:
		w.kind = guard.UnknownTool
	default:
		w.kind = guard.Failed
	}
	var decoded any
	dec := json.NewDecoder(strings.NewReader(w.args))
	dec.UseNumber()
	if err := dec.Decode(&decoded); err != nil && w.kind != guard.Invalid {
		l.t.Fatalf("%s: %v", r.name, err)
	}
	w.passing = c.Code.Class() == tool.Transient
	w.outcome = guard.Failure(tool.Error{Code: c.Code, Constraint: "the tool failed", Received: number.Replace(c.Said)}, decoded)
	return w
}

// foundNothing is what is empty where no config says otherwise.
func foundNothing(result string) bool {
	return slices.Contains([]string{"", "[]", "{}", "null"}, result)
}

func TestCorpus(t *testing.T) {
	for _, folder := range []string{"stuck", "healthy"} {
		for _, r := range corpus(t, folder) {
			t.Run(r.name, func(t *testing.T) {
				refused := false
				for i, j := range r.replay(newLoop(t, guard.Thresholds{}), false) {
					if j.got != j.want {
						t.Errorf("call %d, %s: %s, want %s", i+1, j.call, j.got, j.want)
					}
					refused = refused || !strings.HasPrefix(j.got, "pass") && !strings.HasPrefix(j.got, "nudge")
				}
				if stuck := folder == "stuck"; refused != stuck {
					t.Errorf("a call was refused: %t, want %t", refused, stuck)
				}
			})
		}
	}
}

// What a model is shown of a long result differs each time, by its handle. Judged
// by that, nobody would ever be stuck on it.
func TestOutcomeIsOfTheWholeOutput(t *testing.T) {
	for _, r := range corpus(t, "stuck") {
		if r.name != "stuck/long-result" {
			continue
		}
		for i, j := range r.replay(newLoop(t, guard.Thresholds{}), true) {
			if j.got != "pass" {
				t.Errorf("call %d by what is shown: %s", i+1, j.got)
			}
		}
		return
	}
	t.Fatal("there is no such recording")
}

// Each threshold is judged by the corpus: one more or one less, and a recording
// says something else.
func TestCorpusJudgesEachThreshold(t *testing.T) {
	all := append(corpus(t, "stuck"), corpus(t, "healthy")...)
	g, err := guard.New(guard.Thresholds{})
	if err != nil {
		t.Fatal(err)
	}
	usual := g.Thresholds()
	mutants := 0
	for name, at := range map[string]func(*guard.Thresholds) *int{
		"same_call.nudge":         func(t *guard.Thresholds) *int { return &t.SameCall.Nudge },
		"same_call.refuse":        func(t *guard.Thresholds) *int { return &t.SameCall.Refuse },
		"cycle.nudge":             func(t *guard.Thresholds) *int { return &t.Cycle.Nudge },
		"cycle.refuse":            func(t *guard.Thresholds) *int { return &t.Cycle.Refuse },
		"same_error.nudge":        func(t *guard.Thresholds) *int { return &t.SameError.Nudge },
		"same_error.refuse":       func(t *guard.Thresholds) *int { return &t.SameError.Refuse },
		"same_result.nudge":       func(t *guard.Thresholds) *int { return &t.SameResult.Nudge },
		"same_result.refuse":      func(t *guard.Thresholds) *int { return &t.SameResult.Refuse },
		"malformed.nudge":         func(t *guard.Thresholds) *int { return &t.Malformed.Nudge },
		"malformed.refuse":        func(t *guard.Thresholds) *int { return &t.Malformed.Refuse },
		"duplicate_effect.refuse": func(t *guard.Thresholds) *int { return &t.DuplicateEffect.Refuse },
		"duplicate_read.nudge":    func(t *guard.Thresholds) *int { return &t.DuplicateRead.Nudge },
		"duplicate_read.refuse":   func(t *guard.Thresholds) *int { return &t.DuplicateRead.Refuse },
		"across_effects.nudge":    func(t *guard.Thresholds) *int { return &t.AcrossEffects.Nudge },
		"across_effects.refuse":   func(t *guard.Thresholds) *int { return &t.AcrossEffects.Refuse },
		"escalate":                func(t *guard.Thresholds) *int { return &t.Escalate },
		"stop":                    func(t *guard.Thresholds) *int { return &t.Stop },
	} {
		for _, by := range []int{-1, 1} {
			mutant := usual
			*at(&mutant) += by
			if mutant.Validate() != nil { // cannot be configured
				continue
			}
			mutants++
			if !tells(t, all, mutant) {
				t.Errorf("%s: no recording tells %d from %d", name, *at(&usual), *at(&mutant))
			}
		}
	}
	// 17 thresholds two ways, but for those that would be 1: cycle.nudge,
	// duplicate_effect.refuse, duplicate_read.nudge.
	if want := 2*17 - 3; mutants != want {
		t.Errorf("%d altered thresholds, want %d", mutants, want)
	}
}

// tells reports whether a recording says something else with other thresholds.
func tells(t *testing.T, all []recording, thresholds guard.Thresholds) bool {
	t.Helper()
	for _, r := range all {
		for _, j := range r.replay(newLoop(t, thresholds), false) {
			if j.got != j.want {
				return true
			}
		}
	}
	return false
}
