package tool

// CallID is the identity of a call: the same one sent again is the same call.
type CallID struct {
	// Tenant is the verified identity of the caller; the others are of the request, and may
	// be empty, but for ID.
	Tenant       string `json:"tenant,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	Turn         string `json:"turn,omitempty"`
	ID           string `json:"id"`
}

// Use is the use of a tool that a model has asked for.
type Use struct {
	Key CallID
	// Message names the message of the model that it stands in, if somebody says.
	Message string
	// Tool and Arguments are the model's; empty arguments mean {}. Arguments are
	// what was sent byte by byte, also where that is not UTF-8.
	Tool, Arguments string
	// Custom is the type of a call that is no function's, which its program runs.
	Custom string
}
