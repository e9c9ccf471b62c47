package call

import (
	"fmt"
	"testing"
)

func TestManyPromptsThatTheStoreDoesNotKnowAreBounded(t *testing.T) {
	t.Parallel()
	var p prompts
	prompt := func(n int) promptKey { return promptKey{conversation: fmt.Sprint(n)} }
	for n := range 2*maxUnwritten + 1 {
		p.add(prompt(n))
		p.add(prompt(n))
	}
	for n, want := range map[int]bool{0: false, maxUnwritten: false, maxUnwritten + 1: true, 2 * maxUnwritten: true} {
		if p.has(prompt(n)) != want {
			t.Errorf("prompt %d is known: %v", n, !want)
		}
	}
	if len(p.known) != maxUnwritten || len(p.oldest) != maxUnwritten {
		t.Errorf("%d prompts are known, in a ring of %d", len(p.known), len(p.oldest))
	}
}
