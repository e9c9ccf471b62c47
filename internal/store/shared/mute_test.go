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
)

// A holder that stands still, as a process that was stopped does, holds nobody's call for long.
func TestAMuteHolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path+socketSuffix)
	if err != nil {
		t.Skip(err) // the name of the directory is too long here
	}
	defer func() { _ = listener.Close() }()
	s, err := Open(t.Context(), path, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	s.patience = 10 * time.Millisecond
	if _, err := s.Lookup(context.Background(), tool.CallID{ID: "x"}); !errors.Is(err, errMute) {
		t.Error(err)
	}
}

// One that reads nothing either holds up no request that it has no room for, and no end.
func TestAHolderThatReadsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path+socketSuffix)
	if err != nil {
		t.Skip(err) // the name of the directory is too long here
	}
	defer func() { _ = listener.Close() }()
	s, err := Open(t.Context(), path, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.patience = 10 * time.Millisecond
	large := dedupe.Settlement{Key: tool.CallID{ID: "x"}, Output: &dedupe.Output{Ref: "out", Data: make([]byte, 4<<20)}}
	if _, err := s.Settle(context.Background(), large); !errors.Is(err, errMute) {
		t.Error(err)
	}
	if _, err := s.Lookup(context.Background(), tool.CallID{ID: "x"}); !errors.Is(err, errMute) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
