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
	"github.com/sidecall/sidecall/internal/redact"
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
		servers := Servers{{relay{hangs: true}, "a", "", nil}, {relay{}, "b", "", nil}, {relay{hangs: true}, "c", "", nil}}
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
		var anybody, has atomic.Int32
		servers := Servers{{relay{hangs: true}, "a", "", nil}, {relay{taken: &anybody}, "b", "", nil}, {relay{taken: &has}, "c", "", nil}}
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
	servers := Servers{{relay{}, "a", "a_", nil}, {relay{}, "b", "b_", nil}}
	_, err := servers.Request(t.Context(), "prompts/get", json.RawMessage(`{"name":"c_x"}`), nil)
	if refusal, ok := errors.AsType[*backend.Refusal](err); !ok || refusal.Code != badParams {
		t.Error(err)
	}
}

// quoting is a server that shows in its answers, its errors and what it says to everybody what it was entrusted with.
type quoting struct{ backend.Relay }

const quoted = `{"n":12345678,"m":[-12345678.5,true],"12345678":"is 12345678","a":"x"}`

func (quoting) Forward(_ context.Context, method string, _ json.RawMessage, _ backend.Memory) (json.RawMessage, error) {
	if method == "prompts/get" {
		return nil, &backend.Refusal{Code: 1, Message: "no 12345678", Data: json.RawMessage(quoted)}
	}
	return json.RawMessage(quoted), nil
}

func (quoting) Listen(chan<- struct{}) (next func() (backend.Note, bool), stop func()) {
	return func() (backend.Note, bool) { return backend.Note{Params: quoted}, true }, func() {}
}

// What a server says is JSON still where its secret is taken out of it, a number too.
func TestASecretIsTakenOutOfJSON(t *testing.T) {
	const want = `{"n":"(redacted)","m":["(redacted)",true],"(redacted)":"is (redacted)","a":"x"}`
	servers := Servers{{quoting{}, "a", "", redact.New("12345678")}}
	if got, err := servers.Request(t.Context(), "resources/read", json.RawMessage(`{}`), nil); err != nil || string(got) != want {
		t.Errorf("a result: %s, %v", got, err)
	}
	_, err := servers.Request(t.Context(), "prompts/get", json.RawMessage(`{}`), nil)
	if refusal, ok := errors.AsType[*backend.Refusal](err); !ok || refusal.Message != "no (redacted)" || string(refusal.Data) != want {
		t.Errorf("an error: %+v", refusal)
	}
	next, _ := servers.Listen(nil)
	if note, _ := next(); note.Params != want {
		t.Errorf("a note: %s", note.Params)
	}
	if got := (server{secrets: redact.New(`{"key":1}`)}).masked(json.RawMessage(`{"a":{"key":1}}`)); string(got) != `{"a":(redacted)}` {
		t.Errorf("a secret that is JSON: %s", got)
	}
}
