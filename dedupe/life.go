package dedupe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// life is the time from New to Close, and what runs in the background meanwhile.
type life struct {
	open       context.Context // ends with ErrClosed when Close begins
	shut       context.CancelCauseFunc
	background context.Context // ends when Close has waited long enough
	cancel     context.CancelFunc

	mu    sync.Mutex // guards the end of open together with tasks
	tasks sync.WaitGroup
}

func newLife() *life {
	l := &life{}
	l.open, l.shut = context.WithCancelCause(context.Background())
	l.background, l.cancel = context.WithCancel(context.Background())
	return l
}

// start runs a task in the background; false at the end.
func (l *life) start(task func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open.Err() != nil {
		return false
	}
	l.tasks.Go(task)
	return true
}

// end begins the end, and waits until ctx ends for what runs in the background, which then has
// no time left. ErrClosed says that it was ended before.
func (l *life) end(ctx context.Context) (err error) {
	l.mu.Lock()
	before := context.Cause(l.open)
	l.shut(ErrClosed)
	l.mu.Unlock()
	if before != nil {
		return before
	}
	stop := context.AfterFunc(ctx, l.cancel)
	l.tasks.Wait()
	if !stop() {
		err = ctx.Err()
	}
	l.cancel()
	return err
}

// rounds makes round after round in the background. Each says how long to rest
// after it, and what ends the rest sooner.
func (l *life) rounds(round func() (rest time.Duration, wake <-chan struct{})) {
	l.start(func() {
		for {
			rest, wake := round()
			if l.wait(l.background, rest, wake) != nil {
				return
			}
		}
	})
}

// untilWoken is a wait that has no end of its own.
const untilWoken = time.Duration(math.MaxInt64)

// wait returns nil when the time is over or something comes from wake, an error
// when ctx or the life ends before.
func (l *life) wait(ctx context.Context, pause time.Duration, wake <-chan struct{}) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-wake:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.open.Done():
		return ErrClosed
	}
}

// ErrPanic is a bug that ended a request to the store, which may have taken effect.
var ErrPanic = errors.New("panic")

// Survive makes an error of a panic, for goroutines that have no caller to answer, or others
// beside it: it would end the process, and every call in it.
func Survive(request func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrPanic, p)
		}
	}()
	return request()
}
