package cases

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Result is what became of a case.
type Result struct {
	Name string `json:"case"`
	// Line is where it stands in its file.
	Line int  `json:"line"`
	Met  bool `json:"met"`
	// Disturbed: it was not met, and the machine stood still in every run of it, so
	// time limits may have passed that would not have.
	Disturbed bool         `json:"disturbed,omitempty"`
	Calls     []CallResult `json:"calls"`
	Took      Span         `json:"took"`
}

// CallResult is what was seen of one call.
type CallResult struct {
	Line int    `json:"line"`
	Tool string `json:"tool"`
	Seen Seen   `json:"seen"`
	// Unmet is what was expected and not seen.
	Unmet []Unmet `json:"unmet"`
}

// Seen is what the model, its program and the backend have seen of a call.
type Seen struct {
	Outcome          string   `json:"outcome"`
	Code             string   `json:"code,omitempty"`
	Class            string   `json:"class,omitempty"`
	Field            string   `json:"field,omitempty"`
	Constraint       string   `json:"constraint,omitempty"`
	Received         string   `json:"received,omitempty"`
	Hint             string   `json:"hint,omitempty"`
	Retryable        bool     `json:"retryable"`
	RetriesExhausted bool     `json:"retries_exhausted"`
	RetryAfter       Span     `json:"retry_after,omitzero"`
	Alternatives     []string `json:"allowed_alternatives,omitempty"`
	Suggested        string   `json:"suggested_arguments_json,omitempty"`
	Replayed         bool     `json:"replayed"`
	Truncated        bool     `json:"truncated"`
	Attempts         int      `json:"attempts"`
	Effects          int      `json:"effects"`
	Content          string   `json:"content"`
}

// Span is a time, written as in 1m30s.
type Span time.Duration

func (s Span) String() string { return time.Duration(s).String() }

// MarshalText is String.
func (s Span) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Unmet is an expectation that was not met.
type Unmet struct {
	Key      string `json:"key"`
	Expected string `json:"expected"`
	Seen     string `json:"seen"`
}

func (r *Result) met() bool {
	return !slices.ContainsFunc(r.Calls, func(c CallResult) bool { return len(c.Unmet) > 0 })
}

// judge says which expectations were not met, in the order of the format, and whether requests that were
// to meet a fault never came: then nothing was tested with it.
func judge(e *expectation, faults plan, s *Seen) []Unmet {
	j := &judgement{unmet: []Unmet{}}
	j.text("outcome", e.Outcome, s.Outcome)
	j.text("code", e.Code, s.Code)
	j.text("class", e.Class, s.Class)
	j.truth("retryable", e.Retryable, s.Retryable)
	j.truth("retries_exhausted", e.RetriesExhausted, s.RetriesExhausted)
	if e.RetryAfter != 0 && e.RetryAfter.Round(tick) != time.Duration(s.RetryAfter).Round(tick) {
		j.miss("retry_after", e.RetryAfter.String(), s.RetryAfter.String())
	}
	if e.Alternatives != nil && !slices.Equal(slices.Sorted(slices.Values(e.Alternatives)), slices.Sorted(slices.Values(s.Alternatives))) {
		j.miss("allowed_alternatives", fmt.Sprint(e.Alternatives), fmt.Sprint(s.Alternatives))
	}
	if e.Suggested != nil && !sameJSON(e.Suggested, []byte(s.Suggested)) {
		j.miss("suggested_arguments", tool.Quote(string(e.Suggested)), tool.Quote(s.Suggested))
	}
	if e.Field != nil && *e.Field != s.Field {
		j.miss("field", strconv.Quote(*e.Field), strconv.Quote(s.Field))
	}
	j.pattern("constraint", e.Constraint, s.Constraint)
	j.pattern("hint", e.Hint, s.Hint)
	j.pattern("content", e.Content, s.Content)
	j.truth("replayed", e.Replayed, s.Replayed)
	j.truth("truncated", e.Truncated, s.Truncated)
	j.number("attempts", e.Attempts, s.Attempts)
	j.number("effects", e.Effects, s.Effects)
	if least := faults.least(); s.Attempts < least {
		j.miss("fault", tool.Count(least, "request"), strconv.Itoa(s.Attempts))
	}
	return j.unmet
}

// tick is as exactly as times are compared: they were divided and multiplied.
const tick = 100 * time.Millisecond

// sameJSON reports whether two texts are the same JSON value, whatever the order of
// its members and its blanks.
func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

type judgement struct{ unmet []Unmet }

func (j *judgement) miss(key, expected, seen string) {
	j.unmet = append(j.unmet, Unmet{key, expected, seen})
}

func (j *judgement) text(key, expected, seen string) {
	if expected != "" && expected != seen {
		if seen == "" {
			seen = "none"
		}
		j.miss(key, expected, seen)
	}
}

func (j *judgement) truth(key string, expected *bool, seen bool) {
	if expected != nil && *expected != seen {
		j.miss(key, strconv.FormatBool(*expected), strconv.FormatBool(seen))
	}
}

func (j *judgement) number(key string, expected *int, seen int) {
	if expected != nil && *expected != seen {
		j.miss(key, strconv.Itoa(*expected), strconv.Itoa(seen))
	}
}

// pattern looks for a pattern, which check has compiled before.
func (j *judgement) pattern(key, expected, seen string) {
	if expected != "" && !regexp.MustCompile(expected).MatchString(seen) {
		j.miss(key, "/"+expected+"/", tool.Quote(seen))
	}
}
