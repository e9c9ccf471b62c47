package wrap

import (
	"bytes"
	"encoding/json"
	"errors"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/backend"
)

// The methods that the relay knows.
const (
	methodInitialize  = "initialize"
	methodDiscover    = "server/discover" // where there is no handshake
	methodInitialized = "notifications/initialized"
	methodCancelled   = "notifications/cancelled"
	methodProgress    = "notifications/progress"
	methodListChanged = "notifications/tools/list_changed"
	methodList        = "tools/list"
	methodCall        = "tools/call"
	methodListen      = "subscriptions/listen" // which ends with the client
)

// The codes of JSON-RPC that it answers with.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeInvalidParams  = -32602
	codeInternal       = -32603
)

// message is a message as far as the relay looks at it.
type message struct {
	ID     jsontext.Value `json:"id"`
	Method *string        `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  jsontext.Value `json:"error"`
}

// read reads a message of the client. That a name stands in it twice is an error: client and
// server may take different ones for what is meant. Half of a character, which JavaScript writes
// where a text was cut, is none.
func read(line []byte) (m message, err error) { return m, unmarshal(line, &m) }

func unmarshal(text []byte, into any) error {
	return jsonv2.Unmarshal(text, into, jsontext.AllowInvalidUTF8(true))
}

// readLoose reads what a server says, as readers in use do.
func readLoose(line []byte) (m message, err error) {
	return m, jsonv2.Unmarshal(line, &m, backend.LooseJSON...)
}

// identified reports whether an id is one: a text or a number.
func identified(id jsontext.Value) bool {
	kind := id.Kind()
	return kind == jsontext.KindString || kind == jsontext.KindNumber
}

func (m *message) is(method string) bool { return m.Method != nil && *m.Method == method }

// marshal renders what always can be.
func marshal(value any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // what comes from outside was read before
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// request is a request of the relay; params as they are.
func request(id string, method string, params []byte) []byte {
	return object{{"jsonrpc", marshal("2.0")}, {"id", marshal(id)}, {"method", marshal(method)}, {"params", params}}.text()
}

func note(method string, params any) []byte {
	return object{{"jsonrpc", marshal("2.0")}, {"method", marshal(method)}, {"params", marshal(params)}}.text()
}

// answered is an answer with a result, or an error, as it came.
func answered(id json.RawMessage, member string, value []byte) []byte {
	var b bytes.Buffer
	b.Grow(len(value) + len(id) + 40)
	b.WriteString(`{"jsonrpc":"2.0","id":`)
	b.Write(id)
	b.WriteString(`,"` + member + `":`)
	b.Write(value)
	b.WriteByte('}')
	return b.Bytes()
}

// renamed is a message with another value of a member.
func renamed(text []byte, member string, value []byte) []byte {
	o, err := readObject(text)
	if err != nil {
		return text
	}
	return o.set(member, value).text()
}

// failed is an answer with an error of the relay's own.
func failed(id json.RawMessage, code int, why string, data any) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	return answered(id, "error", marshal(struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}{code, "sidecall wrap: " + why, data}))
}

// member is one of an object.
type member struct {
	name  string
	value jsontext.Value
}

// object is a JSON object, its members as they came and in their order.
type object []member

var errNoObject = errors.New("it is no object")

func readObject(text []byte) (o object, err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(text), backend.LooseJSON...)
	if start, err := decoder.ReadToken(); err != nil || start.Kind() != '{' {
		return nil, errNoObject
	}
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		value, err := decoder.ReadValue()
		if err != nil {
			return nil, err
		}
		o = append(o, member{key, value.Clone()})
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, err
	}
	return o, nil
}

// get is the value of a member; nil when there is none.
func (o object) get(name string) jsontext.Value {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// set puts a value where the member was, or behind the others; nil takes it out.
func (o object) set(name string, value jsontext.Value) object {
	set := make(object, 0, len(o)+1)
	there := false
	for _, m := range o {
		if m.name == name {
			there, m.value = true, value
		}
		if m.value != nil {
			set = append(set, m)
		}
	}
	if !there && value != nil {
		set = append(set, member{name, value})
	}
	return set
}

func (o object) text() []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(marshal(m.name))
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
