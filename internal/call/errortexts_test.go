package call_test

import (
	"fmt"
	"testing"

	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// Names that models make up take no place from the errors of tools, also while the store is down.
func TestErrorTextsAreOfTools(t *testing.T) {
	s := calltest.NewOn(t, brokenStore{}, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("paid")))
	for i := range 10_000 {
		s.Call(calltest.Request(fmt.Sprint("toolu_", i), fmt.Sprint("made_up_", i)))
	}
	s.Call(calltest.Request("toolu", "refund"))
	if made, of := s.ErrorTexts("made_up_1"), s.ErrorTexts("refund"); len(made) != 0 || len(of) != 1 {
		t.Errorf("of a made up tool: %v; of a tool: %v", made, of)
	}
}
