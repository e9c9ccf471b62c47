package wrap

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sidecall/sidecall/internal/backend/lines"
	"github.com/sidecall/sidecall/internal/backend/mcptool"
)

// mostAsks and longestID bound what is remembered of the requests of a server.
const mostAsks, longestID = 4096, 256

// Hear implements mcptool.Listener: it passes on what is the client's.
func (s *server) Hear(text []byte) (answers json.RawMessage) {
	m, err := readLoose(text)
	if i := bytes.Index(text, []byte(`{"jsonrpc"`)); err != nil && i > 0 { // behind a print without an end of line
		text = text[i:]
		m, err = readLoose(text)
	}
	if err != nil || m.Method == nil && m.ID == nil {
		s.noisy.Do(func() {
			s.Log.Warn("the server says what is no message; it is left out", "line", string(text[:min(len(text), noiseShown)]))
		})
		return nil
	}
	s.spoke.Store(true)
	switch {
	case m.Method == nil:
		s.answer(text, m)
		return json.RawMessage(m.ID)
	case m.ID != nil:
		s.request(text, m)
	default:
		s.write(s.notified(text, m))
	}
	return nil
}

// answer takes an answer: to a request of the relay, or of the client.
func (s *server) answer(text []byte, m message) {
	if id, ours := s.ids.own(m.ID); ours {
		s.deliver(id, relayed(m))
		return
	}
	of := s.take(m.ID)
	heard := relayed(m)
	of.ended(&heard)
	switch {
	case m.Result == nil: // what is refused has begun nothing
	case of.method == methodInitialize:
		s.tools.declared(m.Result)
		s.opening.note(func(h *hello) { h.initialize = h.asked }) // the next process is told so
	case of.method == methodDiscover:
		s.tools.declared(m.Result)
	case of.method == methodList:
		if with, ok := s.tools.withReadOutput(m.Result); ok && s.Observe == nil {
			text = answered(json.RawMessage(m.ID), "result", with)
		}
	}
	s.write(text)
}

func relayed(m message) mcptool.Relayed {
	if len(m.Result) > 0 {
		return mcptool.Relayed{Result: json.RawMessage(m.Result)}
	}
	failure := &jsonrpc.Error{Code: codeInternal, Message: "an answer that has neither a result nor an error"}
	_ = json.Unmarshal(m.Error, failure) // as far as it is one
	return mcptool.Relayed{Error: failure, Raw: json.RawMessage(m.Error)}
}

// request passes on what the server asks the client. The first server does so under its own ids, the next
// ones under the relay's: the client may still answer what one before has asked.
func (s *server) request(text []byte, m message) {
	id := string(m.ID)
	as := id
	if !s.first {
		as = string(marshal(s.ids.next()))
		text = renamed(text, "id", []byte(as))
	}
	s.mu.Lock()
	many := len(s.asks) >= mostAsks || len(id) > longestID
	if s.asks != nil && !many {
		s.asks[as] = id
	}
	s.mu.Unlock()
	if many {
		s.tell(failed(json.RawMessage(m.ID), codeInvalidRequest, fmt.Sprintf("at most %d requests wait for the client, with ids of at most %d bytes", mostAsks, longestID), nil))
		return
	}
	s.write(text)
}

// notified looks at a note of the server, and returns it as the client is told it.
func (s *server) notified(text []byte, m message) []byte {
	switch *m.Method {
	case methodCancelled:
		return s.withdrawn(text, m)
	case methodListChanged:
		s.tools.wish()
	case methodProgress:
		var progress struct {
			Token json.RawMessage `json:"progressToken"`
		}
		_ = json.Unmarshal(m.Params, &progress) // what is none is none of ours
		s.mu.Lock()
		beat := s.beats[string(progress.Token)]
		s.mu.Unlock()
		if beat != nil {
			beat()
		}
	}
	return text
}

// withdrawn is a note that the server does not wait for an answer of the client's any more, under the id
// that the client knows.
func (s *server) withdrawn(text []byte, m message) []byte {
	params, err := readObject(m.Params)
	if err != nil {
		return text
	}
	id := string(params.get("requestId"))
	s.mu.Lock()
	defer s.mu.Unlock()
	for as, own := range s.asks {
		if own == id {
			delete(s.asks, as)
			return renamed(text, "params", params.set("requestId", []byte(as)).text())
		}
	}
	return text
}

// Giant implements mcptool.Listener. What answers the relay or the client is told to be too long; of
// anything else only its length is known.
func (s *server) Giant(ln lines.Line) (answers json.RawMessage) {
	id, answer := mcptool.OfGiant(ln.Text, ln.Tail)
	if id == nil || !answer {
		s.Log.Warn("a message of the server is too long, and is left out", "bytes", ln.Size, "limit", MaxMessage)
		return nil
	}
	s.Lost(context.Background(), json.RawMessage(id), nil, mcptool.Relayed{Size: ln.Size})
	return json.RawMessage(id)
}

// Lost implements mcptool.Listener: it answers a request that the server does not, unless it can be sent
// to the next one. Until that is there the request is still the server's, where its client may cancel it.
func (s *server) Lost(ctx context.Context, id json.RawMessage, request []byte, known mcptool.Relayed) {
	if own, ours := s.ids.own(jsontext.Value(id)); ours {
		s.deliver(own, known)
		return
	}
	var next *server
	if known.Forgotten() {
		if next = s.server(ctx); next == nil {
			known = mcptool.Relayed{Error: errForgotten, Raw: marshal(errForgotten)}
		}
	}
	switch of := s.take(jsontext.Value(id)); {
	case of.method == "": // nobody waits for it any more
	case next != nil:
		next.pass(request, jsontext.Value(id), of)
	default:
		s.unanswered(id, of, known)
	}
}

var errForgotten = &jsonrpc.Error{Code: codeInternal, Message: "sidecall wrap: the server has forgotten the session, and does not begin another"}

// unanswered answers a request of the client that the server does not.
func (s *server) unanswered(id json.RawMessage, of passing, known mcptool.Relayed) {
	if known.Said() {
		of.ended(&known)
	} else {
		of.ended(nil)
	}
	switch {
	case known.Error != nil:
		s.write(answered(id, "error", known.Raw))
	case known.Said():
		s.refuse(id, codeInternal, fmt.Sprintf("the answer of the server has %d bytes; at most %d are passed on", known.Size, MaxMessage))
	default:
		s.refuse(id, codeInternal, known.Why(context.Background()))
	}
}
