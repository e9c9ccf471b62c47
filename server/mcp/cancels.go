package mcp

import (
	"context"
	"sync"
)

// cancels are what ends each of what is under way, by what it is of.
type cancels[T any] struct {
	mu  sync.Mutex
	all map[*T]context.CancelFunc
}

func (c *cancels[T]) none() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all) == 0
}

// add notes what is under way, until it is forgotten, which ends it.
func (c *cancels[T]) add(of T, cancel context.CancelFunc) (forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[*T]context.CancelFunc)
	}
	c.all[&of] = cancel
	return func() {
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, &of)
	}
}

// cancel ends what is under way of those that are meant.
func (c *cancels[T]) cancel(which func(T) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for of, cancel := range c.all {
		if which(*of) {
			cancel()
		}
	}
}
