package dedupe

import (
	"bytes"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Closing is a call that is answered by its conversation, so that it never runs.
type Closing struct {
	Key       tool.CallID
	Seen      Known  // what is replaced, if the store still holds it
	Tool      string // the name that the model called
	Result    []byte // what whoever sends the call later is answered
	Terms     []Term // that it can be found by
	Retention time.Duration
}

// Close returns the record as the closing leaves it. The error wraps ErrInvalid.
//
//	ABSENT    CLOSED, epoch 1
//	NOT_RUN   CLOSED, same owner, epoch and attempts: what may have run still may
//	HELD      likewise, approved or not: what is answered is not asked any more
//	other     never: its conversation cannot decide it any more
//
// NOT_RUN is as observed. A late owner settles nothing after it.
func (c *Closing) Close() (Record, error) {
	next := c.Seen.Record
	if !next.State.Refused() || len(c.Tool) > MaxNameBytes || c.Retention < time.Millisecond || len(c.Result) == 0 {
		return next, fmt.Errorf("%w: a call that is %v is closed with a tool name of %d bytes and %d of a result, for %v",
			ErrInvalid, next.State, len(c.Tool), len(c.Result), c.Retention)
	}
	if next.State == Absent {
		next = Record{Epoch: 1, Owner: "conversation", Tool: c.Tool, Effect: tool.NonIdempotent, StartedAt: c.Seen.Now}
	}
	if next.Lost { // there is at least the attempt that was lost
		next.Attempts = max(next.Attempts, 1)
	}
	next.Lost, next.Lapsed = false, false
	next.State, next.FinishedAt, next.LeaseUntil = Closed, c.Seen.Now, time.Time{}
	next.Counter, next.Result = "", c.Result
	return next, nil
}

// Shut closes calls, all of them or none; false when one is not as it was seen.
func Shut(rows Rows, closings []Closing) (shut bool) {
	closed := make([]Record, len(closings))
	for i := range closings {
		c := &closings[i]
		next, err := c.Close()
		rows.Fail(err)
		closed[i] = next
		if current := rows.Call(c.Key); !bytes.Equal(current.AppendSealed(nil), c.Seen.stored.AppendSealed(nil)) {
			return false
		}
	}
	for i, c := range closings {
		rows.SetCall(c.Key, &closed[i], c.Retention, c.Terms)
	}
	return true
}
