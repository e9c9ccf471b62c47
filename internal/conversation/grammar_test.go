package conversation

import (
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/provider"
)

// An item of Responses answers a call of its own kind alone: the provider refuses another for good.
func TestACallIsAnsweredInItsKind(t *testing.T) {
	t.Parallel()
	for kind, other := range map[string]string{"function_call": "custom_tool_call", "custom_tool_call": "function_call"} {
		answer := func(kind string) string { return `{"type":"` + kind + `_output","call_id":"a","output":"x"}` }
		follow := tracker{format: provider.OpenAIResponses, field: "messages_json[1]"}
		if err := follow.read(`{"type":"` + kind + `","call_id":"a","name":"x","arguments":"{}"}`); err != nil {
			t.Fatal(err)
		}
		if err := follow.read(answer(other)); err == nil || !strings.Contains(err.Error(), "is a "+kind+": expected a "+kind+"_output") {
			t.Errorf("a %s is answered as a %s: %v", kind, other, err)
		}
		if err := follow.read(answer(kind)); err != nil || len(follow.open) != 0 {
			t.Errorf("a %s: %v", kind, err)
		}
		follow.open = []Call{{ID: "a"}} // of which nobody has noted the kind
		if err := follow.read(answer(kind)); err != nil {
			t.Errorf("of an earlier head: %v", err)
		}
	}
}
