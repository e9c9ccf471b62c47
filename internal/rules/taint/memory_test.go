package taint

import (
	"fmt"
	"testing"
)

func TestManyPromptsThatTheStoreDoesNotKnowAreBounded(t *testing.T) {
	t.Parallel()
	var m Memory
	numbered := func(n int) prompt { return prompt{conversation: fmt.Sprint(n)} }
	for n := range 2*maxPrompts + 1 {
		m.add(numbered(n))
		m.add(numbered(n))
	}
	for n, want := range map[int]bool{0: false, maxPrompts: false, maxPrompts + 1: true, 2 * maxPrompts: true} {
		if m.has(numbered(n)) != want {
			t.Errorf("prompt %d is known: %v", n, !want)
		}
	}
	if len(m.known) != maxPrompts || len(m.oldest) != maxPrompts {
		t.Errorf("%d prompts are known, in a ring of %d", len(m.known), len(m.oldest))
	}
}
