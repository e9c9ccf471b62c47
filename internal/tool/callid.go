package tool

// CallID is the identity of a call: the same one sent again is the same call.
type CallID struct {
	// Tenant is the verified identity of the caller; the others are of the request, and may
	// be empty, but for ID.
	Tenant       string
	Conversation string
	Turn         string
	ID           string
}
