package wrap

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// hello are the messages with which a client has begun, and was answered.
type hello struct {
	asked                   []byte // the initialize that it has sent last
	initialize, initialized []byte
	// meta is what a client without a handshake says of itself in each request.
	meta json.RawMessage
}

// stateless reports that the client speaks a revision without a handshake.
func (h hello) stateless() bool { return h.meta != nil && h.initialize == nil }

// opening is how the client has begun: the next life of the server is told so too.
type opening struct {
	mu    sync.Mutex
	hello hello
}

func (o *opening) note(more func(*hello)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	more(&o.hello)
}

func (o *opening) said() hello {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.hello
}

// eraPrefix begins the names in _meta by which a client without a handshake says which revision
// it speaks, and what it can.
const eraPrefix = "io.modelcontextprotocol/"

// eraOf is what a client without a handshake says of itself in a request; nil where it is none.
func eraOf(params jsontext.Value) json.RawMessage {
	if !bytes.Contains(params, []byte(eraPrefix)) {
		return nil
	}
	of, err := readObject(params)
	if err != nil {
		return nil
	}
	meta, err := readObject(of.get("_meta"))
	if err != nil || meta.get(eraPrefix+"protocolVersion") == nil {
		return nil
	}
	var kept object
	for _, one := range meta {
		if strings.HasPrefix(one.name, eraPrefix) {
			kept = append(kept, one)
		}
	}
	return kept.text()
}
