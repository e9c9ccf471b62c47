package provider

import (
	"encoding/json"
	"fmt"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// definition is a tool as the tools parameter of a provider has it. Anthropic calls the
// schema by another name; Chat Completions has it all in a function.
type definition struct {
	Type        string          `json:"type,omitempty"`
	Function    *definition     `json:"function,omitempty"`
	Name        string          `json:"name,omitempty"`
	Description *string         `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	// Strict is on in Responses where it is left out, and schemas of tools are not written
	// for it.
	Strict *bool `json:"strict,omitempty"`
}

// Definition is a tool as a provider takes it in its tools parameter.
func Definition(format Format, t *sidecallv1.Tool) (json.RawMessage, error) {
	description, schema := t.GetDescription(), json.RawMessage(t.GetInputSchemaJson())
	d := &definition{Name: t.GetName(), Description: &description}
	switch format {
	case Anthropic:
		d.InputSchema = schema
	case OpenAI, OpenAIResponses:
		d.Parameters, d.Strict = schema, new(bool)
		if d.Type = "function"; format == OpenAI {
			d.Type = ""
			d = &definition{Type: "function", Function: d}
		}
	default:
		return nil, fmt.Errorf("%w: %q", ErrNoFormat, format)
	}
	return marshal(d)
}
