package dedupe

import (
	"strconv"
	"sync/atomic"
)

// process is what the requests of one process share.
type process struct {
	// store is fenced, plain is not; the same one where nothing is fenced.
	store, plain Store
	fence        *fence // nil where nothing is fenced

	options Options
	life    *life
	flights flights
	courier *courier
	owners  atomic.Uint64 // the last owner token given out
}

// newOwner returns a token that no other call of any process has.
func (p *process) newOwner() string {
	head := p.fence.owner()
	b := make([]byte, 0, len(head)+len(p.options.Incarnation)+13)
	b = append(append(b, head...), p.options.Incarnation...)
	return string(strconv.AppendUint(b, p.owners.Add(1), 36))
}

// watch asks the store for hints on a call of another process; nil when it has
// none to give.
func (p *process) watch(key Key) (hints <-chan struct{}, stop func()) {
	if watcher, ok := p.plain.(Watcher); ok {
		return watcher.Watch(key)
	}
	return nil, func() {}
}
