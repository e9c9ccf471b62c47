package call

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAHeartbeatEndsWithItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(context.Background())
		h := withHeartbeat(parent, time.Second)
		defer h.stop()
		child, stop := context.WithCancel(h)
		defer stop()
		cancel()
		<-child.Done()
		if !errors.Is(h.Err(), context.Canceled) || !errors.Is(child.Err(), context.Canceled) {
			t.Errorf("%v, %v", h.Err(), child.Err())
		}
		h.beat() // too late, and harmless
	})
}

func TestAChildOfAHeartbeatSeesTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := withHeartbeat(context.Background(), time.Second)
		defer h.stop()
		child, stop := context.WithTimeout(h, time.Hour)
		defer stop()
		<-child.Done()
		if !errors.Is(child.Err(), context.DeadlineExceeded) {
			t.Errorf("got %v", child.Err())
		}
	})
}
