package taint

import (
	"sync"

	"github.com/sidecall/sidecall/internal/rules"
)

// prompt is a prompt, across conversations and tenants.
type prompt struct{ tenant, conversation, counter string }

func promptOf(c *rules.Call) prompt {
	return prompt{c.Key.Tenant, c.Key.Conversation, rules.Counter(c.Prompt)}
}

// maxPrompts bounds the prompts that are known here alone.
const maxPrompts = 10_000

// Memory has the prompts with untrusted output that the store could not be told of, the
// latest of them. It knows them again as soon as it can be reached: their next untrusted
// output is recorded. The zero value is empty.
type Memory struct {
	mu     sync.Mutex
	known  map[prompt]struct{}
	oldest []prompt // a ring, once it is full
	next   int
}

func (m *Memory) add(p prompt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.known[p]; known {
		return
	}
	if m.known == nil {
		m.known = make(map[prompt]struct{})
	}
	if len(m.oldest) < maxPrompts {
		m.oldest = append(m.oldest, p)
	} else {
		delete(m.known, m.oldest[m.next])
		m.oldest[m.next] = p
		m.next = (m.next + 1) % maxPrompts
	}
	m.known[p] = struct{}{}
}

func (m *Memory) has(p prompt) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.known[p]
	return known
}
