package telemetry

import (
	"container/list"
	"context"
	"hash/maphash"
	"sync"
	"time"
)

const (
	// PromptIdle is how long after its last call a prompt ends that nobody ends.
	PromptIdle = 30 * time.Minute
	// promptSweep is how often those are looked for.
	promptSweep = time.Minute
	// promptShards part the table, each with a lock of its own.
	promptShards = 16
	// maxPrompts bounds the table: some 5 MiB, ten times that with ids as long as they
	// may be. Beyond it the prompt of a shard goes of which nothing was heard for the
	// longest time.
	maxPrompts = 16 << 10
)

// prompts are the prompts of this process. Its zero value is not usable.
type prompts struct {
	// tell hears of each that has ended without EndPrompt, with exitIdle or
	// exitEvicted.
	tell   func(p *prompt, exit string)
	seed   maphash.Seed
	shards [promptShards]promptShard
	most   int // of one shard
}

// promptShard holds the prompts of some conversations.
type promptShard struct {
	mu    sync.Mutex
	byKey map[PromptKey]*list.Element
	byUse list.List // of *prompt, the one that was heard of last in front
}

// newPrompts returns an empty table of at most so many prompts; keep sweeps it.
func newPrompts(most int, tell func(p *prompt, exit string)) *prompts {
	t := &prompts{tell: tell, seed: maphash.MakeSeed(), most: max(most/promptShards, 1)}
	for i := range t.shards {
		t.shards[i].byKey = make(map[PromptKey]*list.Element)
	}
	return t
}

// keep sweeps the table until end. What is open then stays untold: the end of a
// process ends no prompt.
func (t *prompts) keep() (end func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		t.sweeping(ctx)
	}()
	return func(context.Context) error {
		stop()
		<-swept
		return nil
	}
}

func (t *prompts) sweeping(ctx context.Context) {
	ticker := time.NewTicker(promptSweep)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			t.sweep(now)
		}
	}
}

// sweep ends the prompts of which nothing was heard for PromptIdle.
func (t *prompts) sweep(now time.Time) {
	for i := range t.shards {
		for {
			p := t.shards[i].takeIdle(now)
			if p == nil {
				break
			}
			t.endSilently(p, exitIdle)
		}
	}
}

// endSilently tells of a prompt that left the table, unless it had been ended.
func (t *prompts) endSilently(p *prompt, exit string) {
	if p.ended.IsZero() {
		t.tell(p, exit)
	}
}

// evicted tells of a prompt that had to make room; nil for none.
func (t *prompts) evicted(p *prompt) {
	if p != nil {
		t.endSilently(p, exitEvicted)
	}
}

func (t *prompts) shard(key PromptKey) *promptShard {
	of := key.Conversation
	if of == "" {
		of = key.Prompt
	}
	return &t.shards[maphash.String(t.seed, of)%promptShards]
}

// called takes a call down that has its answer, and returns how many errors its
// success has made good.
func (t *prompts) called(c *Call, end *CallEnd, now time.Time) (recoveries int) {
	key := PromptKey{c.info.Tenant, c.info.Conversation, c.info.Prompt}
	if !key.named() || c.info.Apart {
		return 0
	}
	recoveries, evicted := t.shard(key).called(key, c, end, now, t.most)
	t.evicted(evicted)
	return recoveries
}

func (s *promptShard) called(key PromptKey, c *Call, end *CallEnd, now time.Time, most int) (recoveries int, evicted *prompt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(key)
	switch {
	case p == nil && end.resent():
		return 0, nil
	case p == nil:
		p = &prompt{key: key}
		evicted = s.add(p, most)
	case p.ended.IsZero():
	case c.start.Before(p.ended) || end.resent(): // it belongs to what has ended
		return 0, nil
	default:
		*p = prompt{key: key}
	}
	return p.called(c, end, now), evicted
}

// begin opens a prompt before its first call. One that is open stays as it is.
func (t *prompts) begin(key PromptKey, profile string, now time.Time) {
	t.put(&prompt{key: key, profile: profile, last: now}, func(p *prompt) bool { return !p.ended.IsZero() })
}

// end ends a prompt and returns it; nil when it had been ended. heard reports that
// anything was known of it.
func (t *prompts) end(key PromptKey, now time.Time) (p *prompt, heard bool) {
	before, replaced := t.put(&prompt{key: key, last: now, ended: now}, func(p *prompt) bool { return p.ended.IsZero() })
	switch {
	case replaced:
		return &before, true
	case before.key.named():
		return nil, true
	default:
		return &prompt{key: key}, false
	}
}

// put stores a prompt, in place of the one of its key if that may be replaced. It
// returns the one before it, whose key is empty when there was none.
func (t *prompts) put(p *prompt, mayReplace func(*prompt) bool) (before prompt, replaced bool) {
	before, replaced, evicted := t.shard(p.key).put(p, mayReplace, t.most)
	t.evicted(evicted)
	return before, replaced
}

func (s *promptShard) put(p *prompt, mayReplace func(*prompt) bool, most int) (before prompt, replaced bool, evicted *prompt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.find(p.key)
	if found == nil {
		return before, false, s.add(p, most)
	}
	before = *found
	if mayReplace(found) {
		*found, replaced = *p, true
	}
	return before, replaced, nil
}

// find returns the prompt of a key, as the one that was heard of last; nil when
// there is none. The shard is locked.
func (s *promptShard) find(key PromptKey) *prompt {
	element, ok := s.byKey[key]
	if !ok {
		return nil
	}
	s.byUse.MoveToFront(element)
	return element.Value.(*prompt)
}

// add adds a prompt, and returns the one that had to make room for it. The shard is
// locked.
func (s *promptShard) add(p *prompt, most int) (evicted *prompt) {
	if s.byUse.Len() >= most {
		evicted = s.takeLast()
	}
	s.byKey[p.key] = s.byUse.PushFront(p)
	return evicted
}

// takeIdle takes a prompt out of which nothing was heard for PromptIdle; nil when
// there is none.
func (s *promptShard) takeIdle(now time.Time) *prompt {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.byUse.Back()
	if last == nil || now.Sub(last.Value.(*prompt).last) < PromptIdle {
		return nil
	}
	return s.takeLast()
}

func (s *promptShard) takeLast() *prompt {
	p := s.byUse.Remove(s.byUse.Back()).(*prompt)
	delete(s.byKey, p.key)
	return p
}
