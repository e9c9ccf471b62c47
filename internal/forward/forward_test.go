package forward

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
)

// relay is a server that has one resource, or hangs.
type relay struct {
	backend.Relay

	hangs bool
}

func (r relay) Forward(ctx context.Context, method string, _ json.RawMessage, _ backend.Room) (json.RawMessage, error) {
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
