package refusals

import (
	"context"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

const needsReason = `{"type":"object","properties":{"order_id":{"type":"string"},"reason":{"type":"string"}},"required":["order_id","reason"]}`

func withSchema(text string) func(*catalog.Route) {
	return func(r *catalog.Route) { r.Tool.InputSchema = []byte(text) }
}

// byOrder: payments of one order are the same payment.
func byOrder(r *catalog.Route) {
	r.Tool.Policy.EffectKey = tool.EffectKey{Args: []string{"order_id"}, Window: time.Hour}
}

// full is a bulkhead whose place is taken.
func full() *limit.Bulkhead {
	b := limit.NewBulkhead(1)
	b.Acquire(&limit.Place{})
	return b
}

// crowded is a room that has no place left: its calls come late, among many.
func crowded() *limit.Adaptive {
	room := limit.NewAdaptive()
	var in []limit.Pass
	for {
		pass, ok := room.Enter()
		if !ok {
			return room
		}
		if in = append(in, pass); room.Bound() == 0 && len(in) > 8 {
			in[0].Leave()
			in = in[1:]
		}
		pass.Late(time.Second)
	}
}

// watched has the payment made in a profile with a loop guard.
func (w *world) watched() {
	w.t.Helper()
	g, err := guard.New(guard.Thresholds{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.profile(catalog.Profile{Guard: g})
}

// most is how many calls a prompt has made that is refused one at last.
const most = 1000

// until makes calls like the payment until one has an answer.
func (w *world) until(enough func(*sidecallv1.ExecuteToolResponse) bool) {
	w.t.Helper()
	for n := range most {
		if enough(w.Call(w.other(fmt.Sprint(n)))) {
			return
		}
	}
	w.t.Fatalf("%d calls, and nothing has happened", most)
}

// untilRefused makes calls that end with one code until one ends with another.
func (w *world) untilRefused(code, refused tool.Code) {
	w.t.Helper()
	w.until(func(res *sidecallv1.ExecuteToolResponse) bool {
		if got := calltest.Code(res); got != code && got != refused {
			w.t.Fatalf("got %v, want %q", res, code)
		}
		return calltest.Code(res) == refused
	})
}

// beingHad has another call have the payment's effect until the end of the test.
func (w *world) beingHad() {
	let, ended := make(chan struct{}), make(chan struct{})
	pays := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		<-let
		return tool.Reply{Text: []byte("paid elsewhere")}, nil
	}}
	w.now(w.tool("charge", tool.NonIdempotent, pays, byOrder))
	go func() {
		defer close(ended)
		w.Execute(w.t.Context(), call.NewRequest("", w.other("first")))
	}()
	w.t.Cleanup(func() {
		close(let)
		<-ended
	})
	for pays.Calls.Load() == 0 {
		time.Sleep(time.Millisecond) // between two looks
	}
	w.now(w.charge(byOrder))
}
