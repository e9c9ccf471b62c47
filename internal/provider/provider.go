// Package provider has the wire formats in which providers of models are told what
// came of the calls of their models. The sidecar writes them for a conversation that is
// resumed, the Go client for every turn: the same words in both.
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
