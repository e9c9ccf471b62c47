package budget

import (
	"slices"
	"testing"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/telemetry"
)

// Whatever refuses a call is counted under its own name.
func TestEveryCeilingIsCounted(t *testing.T) {
	t.Parallel()
	for ceiling := dedupe.CallsCeiling; ceiling <= dedupe.TokensShrank; ceiling++ {
		if !slices.Contains(telemetry.Rules(), names[ceiling]) {
			t.Errorf("telemetry does not know the rule %q", names[ceiling])
		}
	}
}
