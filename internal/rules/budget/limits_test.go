package budget_test

import (
	"strings"
	"testing"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/rules"
	"github.com/sidecall/sidecall/internal/rules/budget"
)

func TestEveryPromptHasACounterOfItsOwn(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	seen := map[string]string{}
	for _, prompt := range []string{"", ".", ":", "#", "p1", long, long[:255], long[:128], long[:127], ":" + long[:126]} {
		counter := rules.Counter(prompt)
		if counter == "" || len(counter) > dedupe.MaxCounterBytes {
			t.Errorf("%.20q is counted by a name of %d bytes", prompt, len(counter))
		}
		if other, taken := seen[counter]; taken {
			t.Errorf("%.20q and %.20q are counted together", prompt, other)
		}
		seen[counter] = prompt
	}
}

func TestWhatIsNotLimitedIsNotCounted(t *testing.T) {
	t.Parallel()
	if !(budget.Limits{}).None() || (budget.Limits{Calls: 1}).None() || (budget.Limits{Duration: 1}).None() {
		t.Error("limits are taken for none, or none for limits")
	}
	d := budget.Limits{Calls: 3, Tokens: 5}.Draw("p1", 1<<60)
	if want := (dedupe.Draw{Counter: ":p1", Tokens: dedupe.MaxTokens, MaxCalls: 3, MaxTokens: 5}); d != want {
		t.Errorf("got %+v, want %+v", d, want)
	}
}

func TestTokensAreEstimatedByCharacters(t *testing.T) {
	t.Parallel()
	for chars, want := range map[int]int64{0: 0, 1: 1, 4: 1, 5: 2, 8000: 2000} {
		if got := budget.Estimate(chars); got != want {
			t.Errorf("%d characters are %d tokens, want %d", chars, got, want)
		}
	}
}
