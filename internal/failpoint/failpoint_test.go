package failpoint

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]fault{
		"claim.won=kill":             {name: ClaimWon, action: "kill"},
		"claim.won=stop@1":           {name: ClaimWon, action: "stop", at: 1},
		"result.sent=panic@12":       {name: ResultSent, action: "panic", at: 12},
		"renewal.unsent=sleep(0)":    {name: RenewalUnsent, action: "sleep"},
		"renewal.unsent=sleep(50)@2": {name: RenewalUnsent, action: "sleep", sleep: 50 * time.Millisecond, at: 2},
	} {
		if got, err := parse(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
}

func TestWhatCannotBeUnderstoodIsAnError(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                "want name=action",
		"claim.won":                       "want name=action",
		"claim.wonn=kill":                 `no failpoint is called "claim.wonn"`,
		"=kill":                           `no failpoint is called ""`,
		"claim.won=":                      `no action is called ""`,
		"claim.won=kil":                   `no action is called "kil"`,
		"claim.won=kill@":                 "no number of a hit",
		"claim.won=kill@0":                "no number of a hit",
		"claim.won=kill@-1":               "no number of a hit",
		"claim.won=kill@x":                "no number of a hit",
		"claim.won=sleep":                 `no action is called "sleep"`,
		"claim.won=sleep(":                "want sleep(milliseconds)",
		"claim.won=sleep(-1)":             "want sleep(milliseconds)",
		"claim.won=sleep(1)x":             "want sleep(milliseconds)",
		"claim.won=sleep(99999999999)":    "want sleep(milliseconds)",
		"claim.won=kill,result.sent=kill": "no action is called",
	} {
		if got, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestNamesAreDifferent(t *testing.T) {
	t.Parallel()
	names := Names()
	slices.Sort(names)
	if n := len(slices.Compact(slices.Clone(names))); n != len(names) {
		t.Errorf("%d names, %d different ones: %v", len(names), n, names)
	}
}
