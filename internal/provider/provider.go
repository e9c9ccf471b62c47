// Package provider has the wire formats of the providers of models: what their messages ask
// for, how they are told what came of it, and what tools they may be given. It is the only
// place that knows them.
package provider

// Format is the wire format of a provider.
type Format string

const (
	// Anthropic is the Messages API.
	Anthropic Format = "anthropic"
	// OpenAI is Chat Completions, OpenAIResponses the Responses API.
	OpenAI          Format = "openai"
	OpenAIResponses Format = "openai-responses"
)

// Formats are all of them.
func Formats() []Format { return []Format{Anthropic, OpenAI, OpenAIResponses} }
