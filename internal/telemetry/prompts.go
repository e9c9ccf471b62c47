package telemetry

import (
	"container/list"
	"context"
	"sync"
	"time"
)

const (
	// PromptIdle is how long after its last call a prompt ends that nobody ends.
	PromptIdle = 30 * time.Minute
	// promptSweep is how often those are looked for.
	promptSweep = time.Minute
	// maxPrompts bounds the table: some 5 MiB, ten times that with ids as long as they
	// may be. Beyond it the prompt goes of which nothing was heard for the longest time.
	maxPrompts = 16 << 10
)

// prompts are the prompts of this process. Its zero value is not usable.
type prompts struct {
	// tell hears of each that has ended without EndPrompt, with exitIdle or
	// exitEvicted.
	tell func(p *prompt, exit string)
	most int

	mu    sync.Mutex
	byKey map[PromptKey]*list.Element
	byUse list.List // of *prompt, the one that was heard of last in front
}

// newPrompts returns an empty table of at most so many prompts; keep sweeps it.
func newPrompts(most int, tell func(p *prompt, exit string)) *prompts {
	return &prompts{tell: tell, most: most, byKey: make(map[PromptKey]*list.Element)}
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
	for p := t.takeIdle(now); p != nil; p = t.takeIdle(now) {
		t.endSilently(p, exitIdle)
	}
}

// endSilently tells of a prompt that left the table, unless it had been ended; nil for
// none. The table is not locked.
func (t *prompts) endSilently(p *prompt, exit string) {
	if p != nil && p.ended.IsZero() {
		t.tell(p, exit)
	}
}

// called takes a call down that has its answer, and returns how many errors its
// success has made good.
func (t *prompts) called(c *Call, end *CallEnd, now time.Time) (recoveries int) {
	key := PromptKey{c.info.Tenant, c.info.Conversation, c.info.Prompt}
	if !key.named() || c.info.Apart {
		return 0
	}
	recoveries, evicted := t.calledOf(key, c, end, now)
	t.endSilently(evicted, exitEvicted)
	return recoveries
}

// calledOf is called for the prompt of a key, and returns too the one that had to make
// room.
func (t *prompts) calledOf(key PromptKey, c *Call, end *CallEnd, now time.Time) (recoveries int, evicted *prompt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.find(key)
	switch {
	case p == nil && end.resent():
		return 0, nil
	case p == nil:
		p = &prompt{key: key}
		evicted = t.add(p)
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
	var evicted *prompt
	defer func() { t.endSilently(evicted, exitEvicted) }()
	t.mu.Lock()
	defer t.mu.Unlock()
	found := t.find(p.key)
	if found == nil {
		evicted = t.add(p)
		return before, false
	}
	before = *found
	if mayReplace(found) {
		*found, replaced = *p, true
	}
	return before, replaced
}

// find returns the prompt of a key, as the one that was heard of last; nil when
// there is none. The table is locked.
func (t *prompts) find(key PromptKey) *prompt {
	element, ok := t.byKey[key]
	if !ok {
		return nil
	}
	t.byUse.MoveToFront(element)
	return element.Value.(*prompt)
}

// add adds a prompt, and returns the one that had to make room for it. The table is
// locked.
func (t *prompts) add(p *prompt) (evicted *prompt) {
	if t.byUse.Len() >= t.most {
		evicted = t.takeLast()
	}
	t.byKey[p.key] = t.byUse.PushFront(p)
	return evicted
}

// takeIdle takes a prompt out of which nothing was heard for PromptIdle; nil when
// there is none.
func (t *prompts) takeIdle(now time.Time) *prompt {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.byUse.Back()
	if last == nil || now.Sub(last.Value.(*prompt).last) < PromptIdle {
		return nil
	}
	return t.takeLast()
}

func (t *prompts) takeLast() *prompt {
	p := t.byUse.Remove(t.byUse.Back()).(*prompt)
	delete(t.byKey, p.key)
	return p
}
