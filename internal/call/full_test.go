package call_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// full is a store that has room for records and none for outputs.
type full struct{ dedupe.Store }

func (f full) Settle(ctx context.Context, s dedupe.Settlement) (dedupe.SettleVerdict, error) {
	if s.Output != nil {
		return 0, fmt.Errorf("%w: of a test", dedupe.ErrFull)
	}
	return f.Store.Settle(ctx, s)
}

// A result whose rest has no room is told without it, at once and in its record: nobody is
// sent to read what is not there.
func TestAResultWhoseRestIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
			return tool.Reply{Text: []byte(strings.Repeat("many words ", 10_000))}, nil
		}}
		s := calltest.NewOn(t, full{embedded.InMemory(embedded.Options{})}, calltest.NewRoute(t, "list_orders", tool.NonIdempotent, b))
		began := time.Now()
		first := s.Call(calltest.Request("toolu_1", "list_orders"))
		if first.GetIsError() || !first.GetRecorded() || time.Since(began) != 0 {
			t.Errorf("after %v: recorded %v, %s", time.Since(began), first.GetRecorded(), first.GetContent())
		}
		cut := first.GetTruncation()
		if cut.GetOutputRef() != "" || cut.GetOriginalChars() != 110_000 || strings.Contains(first.GetContent(), "out_") ||
			!strings.Contains(first.GetContent(), "The rest is not kept and cannot be read.") {
			t.Errorf("it is told %v, and %s", cut, first.GetContent())
		}
		again := s.Call(calltest.Request("toolu_1", "list_orders"))
		if !again.GetReplayed() || again.GetContent() != first.GetContent() || !proto.Equal(again.GetTruncation(), cut) || b.Calls.Load() != 1 {
			t.Errorf("after %d calls the record says %v", b.Calls.Load(), again)
		}
	})
}

// noRoom is a store that has no room for another record.
type noRoom struct{ dedupe.Store }

func (noRoom) Admit(context.Context, dedupe.Request) (dedupe.Admission, error) {
	return dedupe.Admission{}, fmt.Errorf("%w: of a test", dedupe.ErrFull)
}

// A store that is full is not said to be down: whoever looks finds it up and ready.
func TestACallForWhoseRecordThereIsNoRoom(t *testing.T) {
	b := &calltest.Backend{}
	s := calltest.NewOn(t, noRoom{embedded.InMemory(embedded.Options{})}, calltest.NewRoute(t, "refund", tool.NonIdempotent, b))
	res := s.Call(calltest.Request("toolu_1", "refund"))
	if calltest.Code(res) != tool.CodeStoreUnavailable || b.Calls.Load() != 0 || !strings.HasSuffix(res.GetError().GetConstraint(), "is full") {
		t.Errorf("%s", res.GetContent())
	}
}
