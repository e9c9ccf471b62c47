package deadline

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestItPassesWhenToldTo(t *testing.T) {
	t.Parallel()
	ctx, pass := On()
	child, cancel := context.WithTimeout(ctx, 2*time.Hour)
	defer cancel()
	if at, ok := child.Deadline(); !ok || time.Until(at) > far || ctx.Err() != nil {
		t.Errorf("a deadline %v, %t, %v", at, ok, ctx.Err())
	}
	pass()
	pass()
	<-child.Done()
	for _, c := range []context.Context{ctx, child} {
		if !errors.Is(c.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(c), context.DeadlineExceeded) {
			t.Errorf("it ended with %v because of %v", c.Err(), context.Cause(c))
		}
	}
}
