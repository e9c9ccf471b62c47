package exectool

import (
	"sync/atomic"
	"testing"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// allowance is a room of so many bytes.
type allowance struct{ left atomic.Int64 }

func (a *allowance) Take(n int64) bool {
	if a.left.Add(-n) >= 0 {
		return true
	}
	a.left.Add(n)
	return false
}

// What a command writes is kept as far as there is room; it comes to its end all
// the same, unless nothing can be left half done.
func TestOutputIsKeptAsFarAsThereIsRoom(t *testing.T) {
	for effect, script := range map[tool.Effect]string{
		tool.NonIdempotent: `head -c 1000000 /dev/zero | tr '\0' x`,
		tool.ReadOnly:      `yes`,
	} {
		room := &allowance{}
		room.left.Store(100 << 10)
		reply, failure := invoke(one(t, shell(script)), backend.Invocation{Effect: effect, MaxBytes: 10 << 20, Memory: room})
		if failure != nil || !reply.Cut || len(reply.Text) < 16<<10 || len(reply.Text) > 116<<10 {
			t.Errorf("%s: %d bytes, cut %v, %v", effect, len(reply.Text), reply.Cut, failure)
		}
	}
}
