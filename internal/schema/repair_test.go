package schema_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/sidecall/sidecall/test/testkit/repairs"
)

// corpus is the tools of testdata, written in the style of those that MCP
// servers offer.
func corpus(t *testing.T) []repairs.Tool {
	t.Helper()
	text, err := os.ReadFile("testdata/schemas.json")
	if err != nil {
		t.Fatal(err)
	}
	var tools []repairs.Tool
	if err := json.Unmarshal(text, &tools); err != nil {
		t.Fatal(err)
	}
	return tools
}

func TestProgramRepairsCallsFromTheFiveFieldsAlone(t *testing.T) {
	tools := corpus(t)
	if len(tools) < 40 {
		t.Fatalf("the corpus has %d tools, want at least 40", len(tools))
	}
	report, err := repairs.Run(tools, repairs.Local)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
	for i, f := range report.Failures {
		if i < 40 {
			t.Log(f)
		}
	}
	if len(report.Unusable) > 0 {
		t.Errorf("no valid call for %v", report.Unusable)
	}
	if share := report.Total.Share(); share < 0.95 {
		t.Errorf("%.2f %% repaired within one further call, want at least 95 %%", 100*share)
	}
}
