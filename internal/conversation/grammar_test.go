package conversation

import (
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/provider"
)

// An item of Responses answers a call of its own kind alone: the provider refuses another for good.
func TestACallIsAnsweredInItsKind(t *testing.T) {
	t.Parallel()
	for kind, other := range map[string]string{
		"function_call": "custom_tool_call", "custom_tool_call": "function_call", "computer_call": "function_call",
		"shell_call": "local_shell_call", "local_shell_call": "shell_call", "apply_patch_call": "custom_tool_call",
		"tool_search_call": "function_call",
	} {
		answer := func(kind string) string {
			return `{"type":"` + provider.AnswerTo(kind) + `","call_id":"a","output":"x"}`
		}
		follow := tracker{format: provider.OpenAIResponses, field: "messages_json[1]"}
		if err := follow.read(`{"type":"` + kind + `","call_id":"a","name":"x","arguments":"{}"}`); err != nil {
			t.Fatal(err)
		}
		if err := follow.read(`{"role":"user","content":"Well?"}`); err == nil || !strings.Contains(err.Error(), "has no result") {
			t.Errorf("while a %s is open the user says something: %v", kind, err)
		}
		if err := follow.read(answer(other)); err == nil || !strings.Contains(err.Error(), "is a "+kind+": expected a "+provider.AnswerTo(kind)) {
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

// What its provider has searched itself nobody answers.
func TestASearchOfTheProvidersIsNoCall(t *testing.T) {
	t.Parallel()
	follow := tracker{format: provider.OpenAIResponses}
	for _, raw := range []string{
		`{"type":"tool_search_call","call_id":null,"execution":"server","arguments":{}}`, `{"type":"tool_search_output","call_id":null,"execution":"server","tools":[]}`,
		`{"type":"tool_search_call","call_id":"a","execution":"server"}`, `{"type":"tool_search_output","call_id":"a","execution":"server"}`,
		`{"role":"user","content":"Well?"}`,
	} {
		if err := follow.read(raw); err != nil || len(follow.open) != 0 {
			t.Errorf("%s: %v, %v are open", raw, err, follow.open)
		}
	}
}

// Its provider declares the output of a local shell with the call's id as its own.
func TestALocalShellIsAnsweredByItsID(t *testing.T) {
	t.Parallel()
	follow := tracker{format: provider.OpenAIResponses}
	for _, raw := range []string{`{"type":"local_shell_call","id":"lsh_1","call_id":"a","action":{}}`, `{"type":"local_shell_call_output","id":"a","output":"{}"}`} {
		if err := follow.read(raw); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if len(follow.open) != 0 {
		t.Errorf("%v are open", follow.open)
	}
}

// What answers a call of a tool that the provider has built in is no text, and a text in its place is
// refused for good.
func TestWhatIsNoTextIsNotLeftOut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 500)
	for _, raw := range []string{
		`{"type":"computer_call_output","call_id":"a","output":{"type":"computer_screenshot","image_url":"` + long + `"}}`,
		`{"type":"shell_call_output","call_id":"a","output":[{"stdout":"` + long + `","stderr":"","outcome":{"type":"exit","exit_code":0}}]}`,
	} {
		messages := []Message{{JSON: raw}}
		if err := Compact(Key{ID: "c1"}, provider.OpenAIResponses, 0, 1, messages); err != nil || messages[0].JSON != raw {
			t.Errorf("%v, of %s is left\n%s", err, raw, messages[0].JSON)
		}
	}
}
