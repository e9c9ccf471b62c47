package call_test

import (
	"context"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// TestTheToolsOwnWordThatItFailed: it says nothing of how far the tool had come.
// What the tool said is kept for whoever has to find out.
func TestTheToolsOwnWordThatItFailed(t *testing.T) {
	const said = "charged, but the receipt printer is on fire"
	for name, tt := range map[string]struct {
		effect  tool.Effect
		cleanly bool
		code    tool.Code
		state   dedupe.State
	}{
		"must not be repeated":                    {tool.NonIdempotent, false, tool.CodeOutcomeUnknown, dedupe.Unknown},
		"must not be repeated, but fails cleanly": {tool.NonIdempotent, true, tool.CodeUnrecoverable, dedupe.Done},
		"idempotent": {tool.Idempotent, false, tool.CodeUnrecoverable, dedupe.Done},
		"keyed":      {tool.Keyed, false, tool.CodeUnrecoverable, dedupe.Done},
		"read only":  {tool.ReadOnly, false, tool.CodeUnrecoverable, dedupe.Done},
	} {
		t.Run(name, func(t *testing.T) {
			b := new(calltest.Backend)
			b.Do = func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
				return tool.Reply{Status: 1}, in.OwnWord(&tool.Failure{
					Code: tool.CodeUnrecoverable, Message: said, Constraint: "the command exits with code 1", ErrorType: "exit_1",
				})
			}
			s := calltest.New(t, calltest.NewRoute(t, "charge", tt.effect, b, func(r *catalog.Route) {
				r.Tool.Policy.FailsCleanly = tt.cleanly
			}))
			for range 2 { // the second time from the record
				res := s.Call(calltest.Request("toolu_1", "charge"))
				if calltest.Code(res) != tt.code || res.GetRecovery().GetRetryable() {
					t.Errorf("%s", res.GetContent())
				}
				if !strings.Contains(res.GetContent(), said) {
					t.Errorf("what the tool said is lost: %s", res.GetContent())
				}
				if strings.Contains(res.GetContent(), "same way") {
					t.Errorf("it claims to know what would come of it: %s", res.GetContent())
				}
			}
			if n := b.Calls.Load(); n != 1 {
				t.Errorf("%d attempts", n)
			}
			if state := s.State("toolu_1"); state != tt.state {
				t.Errorf("recorded as %s, want %s", state, tt.state)
			}
		})
	}
}
