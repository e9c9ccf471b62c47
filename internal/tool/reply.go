package tool

import "encoding/json"

// Reply is what one attempt brought back.
type Reply struct {
	// Status is the HTTP status or exit code; 0 when the transport has none.
	Status int
	// Header holds response header values by lower-case name, for error
	// mapping. nil when the transport has none.
	Header map[string]string
	// Text is the main text of the reply, as bytes from the upstream: maybe
	// not valid UTF-8. For JSON replies it is the JSON text.
	Text []byte
	// JSON reports that Text is (declared or evidently) one JSON value.
	JSON bool
	// Blocks are non-text parts, and text resources.
	Blocks []Block
	// Structured is the structured result where the transport has its own
	// place for one (MCP structuredContent); nil otherwise.
	Structured json.RawMessage
	// Binary is the media type when the body is not text; Text is then empty
	// and Size says how long the body was.
	Binary string
	// Size is the number of bytes of the body as far as known: the declared
	// length, else what was read.
	Size int64
	// InputRequired is what the tool asks for before it goes on, inputRequests and requestState as
	// MCP has them; nil where it has ended. Text says so then.
	InputRequired json.RawMessage
	// Cut reports that reading stopped at MaxBytes, or where there was no room.
	Cut bool
}

// Block is one non-text part of a reply, or a text resource.
type Block struct {
	Type     string // image, audio, resource, resource_link
	MIMEType string
	Data     []byte
	Text     string
	URI      string
	Name     string
	Size     int64
}
