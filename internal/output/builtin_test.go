package output

import (
	"encoding/json"
	"testing"

	"github.com/sidecall/sidecall/internal/tool"
)

func TestReadOutputIsFullyDescribed(t *testing.T) {
	made := Tool()
	if made.Name != "read_output" || made.Backend != "sidecall" || made.Effect != tool.ReadOnly || made.Description == "" {
		t.Errorf("%+v", made)
	}
	var schema struct {
		Properties map[string]struct {
			Type    string
			Minimum *int
		}
		Required []string
	}
	if err := json.Unmarshal(made.InputSchema, &schema); err != nil {
		t.Fatal(err)
	}
	types := map[string]string{"output_ref": "string", "offset": "integer", "limit": "integer", "pattern": "string"}
	for name, want := range types {
		if got := schema.Properties[name].Type; got != want {
			t.Errorf("%s is of type %q, want %q", name, got, want)
		}
	}
	if len(schema.Properties) != len(types) || len(schema.Required) != 1 || schema.Required[0] != "output_ref" {
		t.Errorf("%+v", schema)
	}
	if p := schema.Properties; *p["offset"].Minimum != 0 || *p["limit"].Minimum != 1 {
		t.Error("offset starts at 0, limit at 1")
	}
	p := made.Policy
	if p.AttemptTimeout <= 0 || p.Deadline < p.AttemptTimeout || p.Retry.MaxAttempts < 1 || p.Retry.Multiplier < 1 ||
		p.MaxOutputChars != DefaultLimit || !p.Untrusted {
		t.Errorf("%+v", p)
	}
}
