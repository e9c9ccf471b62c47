package forward

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
)

// relay is a server that has one resource, or hangs. It counts what it takes of subscriptions.
type relay struct {
	backend.Relay

	hangs bool
	taken *atomic.Int32
}

func (r relay) Forward(ctx context.Context, method string, _ json.RawMessage, _ backend.Room) (json.RawMessage, error) {
	if r.hangs {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if r.taken != nil {
		r.taken.Add(1)
	}
	if method == "resources/list" {
		return json.RawMessage(`{"resources":[{"uri":"test://b"}]}`), nil
	}
	return json.RawMessage(`{"contents":[]}`), nil
}

// A server that hangs hides nothing of the others.
func TestAServerThatHangsHidesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		same := func(text string) string { return text }
		servers := Servers{{relay{hangs: true}, "a", "", same}, {relay{}, "b", "", same}, {relay{hangs: true}, "c", "", same}}
		for method, want := range map[string]string{"resources/list": `{"resources":[{"uri":"test://b"}]}`, "resources/read": `{"contents":[]}`} {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			got, err := servers.Request(ctx, method, json.RawMessage(`{}`), nil)
			if err != nil || string(got) != want {
				t.Errorf("%s: %s, %v", method, got, err)
			}
			cancel()
		}
	})
}

// A server that takes any subscription does not keep it from the one that has the resource, nor one that hangs.
func TestASubscriptionGoesToWhoeverMayHaveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		same := func(text string) string { return text }
		var anybody, has atomic.Int32
		servers := Servers{{relay{hangs: true}, "a", "", same}, {relay{taken: &anybody}, "b", "", same}, {relay{taken: &has}, "c", "", same}}
		for i, method := range []string{"resources/subscribe", "resources/unsubscribe"} {
			if _, err := servers.Request(t.Context(), method, json.RawMessage(`{"uri":"test://c"}`), nil); err != nil {
				t.Error(method, err)
			}
			if want := int32(i + 1); anybody.Load() != want || has.Load() != want {
				t.Errorf("%s was taken by %d and %d", method, anybody.Load(), has.Load())
			}
		}
		if _, err := servers[:1].Request(t.Context(), "resources/subscribe", nil, nil); err == nil {
			t.Error("of a server that hangs there is no error")
		}
	})
}
