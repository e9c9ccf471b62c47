package call

import "sync"

// promptKey is a prompt, across conversations and tenants.
type promptKey struct{ tenant, conversation, counter string }

// maxUnwritten bounds the prompts that are known here alone.
const maxUnwritten = 10_000

// prompts are those that the store could not be told of, the latest of them. It knows
// them again as soon as it can be reached: their next untrusted output is recorded.
type prompts struct {
	mu     sync.Mutex
	known  map[promptKey]struct{}
	oldest []promptKey // a ring, once it is full
	next   int
}

func (p *prompts) add(key promptKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.known[key]; known {
		return
	}
	if p.known == nil {
		p.known = make(map[promptKey]struct{})
	}
	if len(p.oldest) < maxUnwritten {
		p.oldest = append(p.oldest, key)
	} else {
		delete(p.known, p.oldest[p.next])
		p.oldest[p.next] = key
		p.next = (p.next + 1) % maxUnwritten
	}
	p.known[key] = struct{}{}
}

func (p *prompts) has(key promptKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.known[key]
	return known
}
