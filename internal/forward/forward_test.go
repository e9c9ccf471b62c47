package forward

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
)

// relay is a server that has one resource, or hangs. It counts the subscriptions that it has.
type relay struct {
	backend.Relay

	hangs bool
	taken *atomic.Int32
}

func (r relay) Subscribe(ctx context.Context, _ string) (end func(context.Context) error, err error) {
	if r.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r.taken.Add(1)
	return func(context.Context) error { r.taken.Add(-1); return nil }, nil
}

func (r relay) Forward(ctx context.Context, method string, _ json.RawMessage, _ backend.Memory) (json.RawMessage, error) {
	if r.hangs {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
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
		end, err := servers.Subscribe(t.Context(), "test://c")
		if err != nil || anybody.Load() != 1 || has.Load() != 1 {
			t.Fatalf("it was taken by %d and %d, %v", anybody.Load(), has.Load(), err)
		}
		if err := end(t.Context()); err != nil || anybody.Load() != 0 || has.Load() != 0 {
			t.Errorf("after its end it is that of %d and %d, %v", anybody.Load(), has.Load(), err)
		}
		if _, err := servers[:1].Subscribe(t.Context(), "test://c"); err == nil {
			t.Error("of a server that hangs there is no error")
		}
	})
}

// A prompt that cannot be any server's is not there; the method is.
func TestAPromptOfNobody(t *testing.T) {
	same := func(text string) string { return text }
	servers := Servers{{relay{}, "a", "a_", same}, {relay{}, "b", "b_", same}}
	_, err := servers.Request(t.Context(), "prompts/get", json.RawMessage(`{"name":"c_x"}`), nil)
	if refusal, ok := errors.AsType[*backend.Refusal](err); !ok || refusal.Code != badParams {
		t.Error(err)
	}
}
