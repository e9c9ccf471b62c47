package mcptool

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"

	"github.com/sidecall/sidecall/internal/backend"
)

// noSession are the words in which servers say with 400 that they do not know
// the session of a request: the official SDKs (with an id of null, the older
// Python ones with the id "server-error") and their examples, and in plain text
// mcp-go and the Kotlin and Python servers built after them. They are matched
// from the first word on, since handlers speak of session ids too.
var noSession = regexp.MustCompile(`(?i)^(bad request: )?((no valid|missing|invalid|unknown|invalid or missing|invalid or expired) (mcp )?session id\b|(missing )?mcp-session-id\b)`)

// lostSession are the words in which servers say with 404 that they have forgotten
// the session of a request, before they look at it: the official SDKs (in JSON-RPC
// without the id of the request, the Go one in plain text), mcp-go, and the
// servers built after them. "session is closing" of the Go SDK is not among
// them: there the call may have begun.
var lostSession = regexp.MustCompile(`(?i)^(not found: )?(session (id )?(not found|(has been |was )?(terminated|expired))\b|(invalid|unknown|invalid or expired) (mcp )?session id\b)`)

// longestWord is how long a refusal is at most, in bytes; whoever has more to say is
// not the protocol.
const longestWord = 200

// checkSession says what an HTTP error means for the session, and has it
// replaced whenever it may well be unknown: a new one costs little. As evidence that
// the call was not carried out counts only the protocol's own word. It demands
// 404 for an unknown session; servers written after the official examples answer
// 400. But every proxy on the way has a 404 too, and may have it for a call that
// it has passed on: so both have to name the session, in known words.
func (w *wire) checkSession(req *http.Request, a answer) sessionWord {
	suspect := a.status == http.StatusNotFound ||
		a.status == http.StatusBadRequest && bytes.Contains(bytes.ToLower(a.body), []byte("session"))
	if !suspect || req.Header.Get(sessionHeader) == "" {
		return sessionKept
	}
	text, answers, readable := errorText(a.body)
	word := noSession.MatchString(text)
	if answers && a.rpc != nil && a.status == http.StatusBadRequest {
		if word {
			w.inbox.expire()
		}
		return sessionKept
	}
	w.inbox.expire()
	word = word || a.status == http.StatusNotFound && lostSession.MatchString(text)
	if answers || !readable || !word || len(text) > longestWord {
		return sessionDoubted
	}
	return sessionGone
}

// errorText returns the words of an error body, whether it answers a request,
// which is what a JSON-RPC response with an id does, and whether it could be
// read. A body that is no JSON is all words.
func errorText(body []byte) (text string, answers, readable bool) {
	body = bytes.TrimSpace(body)
	if !backend.LooksJSON(body) {
		return string(body), false, true
	}
	var msg struct {
		ID     any             `json:"id"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &msg) != nil {
		return "", false, false // cut off, or a batch
	}
	if rpc := rpcError(body); rpc != nil {
		text = rpc.Message
	}
	named := msg.ID != nil && msg.ID != "" && msg.ID != "server-error"
	return text, named && (msg.Result != nil || msg.Error != nil), true
}
