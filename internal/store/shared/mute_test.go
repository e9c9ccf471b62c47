package shared

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// besideAMute is a guest of a holder that stands still, as a process that was stopped does.
func besideAMute(t *testing.T) *Store {
	t.Helper()
	path := filepath.Join(harness.ShortDir(t), "s")
	listener, err := net.Listen("unix", path+socketSuffix)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), listener.Close()); err != nil {
			t.Error(err)
		}
	})
	s.patience = 10 * time.Millisecond
	return s
}

// A holder that stands still holds nobody's call for long.
func TestAMuteHolder(t *testing.T) {
	t.Parallel()
	if _, err := besideAMute(t).Lookup(context.Background(), tool.CallID{ID: "x"}); !errors.Is(err, errMute) {
		t.Error(err)
	}
}

// One that reads nothing either holds up no request that it has no room for, and no end.
func TestAHolderThatReadsNothing(t *testing.T) {
	t.Parallel()
	s := besideAMute(t)
	large := dedupe.Settlement{Key: tool.CallID{ID: "x"}, Output: &dedupe.Output{Ref: "out", Data: make([]byte, 4<<20)}}
	if _, err := s.Settle(context.Background(), large); !errors.Is(err, errMute) {
		t.Error(err)
	}
	if _, err := s.Lookup(context.Background(), tool.CallID{ID: "x"}); !errors.Is(err, errMute) {
		t.Error(err)
	}
}
