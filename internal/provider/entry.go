package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var (
	// Reading is how kept messages are read: names are what they are byte for byte, and
	// stand once, or a provider might find a call where there is none here. What they have
	// beside ids may be no text: it is the model's, and is not looked at.
	Reading = jsonv2.JoinOptions(jsontext.AllowInvalidUTF8(true), jsonv2.MatchCaseInsensitiveNames(false))
	// lenient takes names that stand twice too: in arguments they are for the tool's
	// schema to find fault with.
	lenient = jsonv2.JoinOptions(Reading, jsontext.AllowDuplicateNames(true))
)

// loose is a value beside the calls: what is none of its type is the zero value.
type loose[T any] struct {
	is  T
	raw jsontext.Value
}

// UnmarshalJSONFrom takes any value.
func (l *loose[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	var is T
	if jsonv2.Unmarshal(raw, &is, lenient) != nil {
		is = *new(T)
	}
	l.is, l.raw = is, raw.Clone()
	return nil
}

// Entry is an entry of the array that a provider is sent: the fields by which calls and
// results are known.
type Entry struct {
	Type       string         `json:"type"`
	ID         loose[string]  `json:"id"`
	Role       string         `json:"role"`
	Status     jsontext.Value `json:"status"`
	Content    jsontext.Value `json:"content"`
	ToolCalls  jsontext.Value `json:"tool_calls"`
	ToolCallID string         `json:"tool_call_id"`
	CallID     string         `json:"call_id"`
	Output     jsontext.Value `json:"output"`
	function   `json:",inline"`

	// Execution is who makes a tool_search_call: server or client.
	Execution loose[string] `json:"execution"`
	// Environment is where a shell_call is run: by the provider, in a container of its, or by the program.
	Environment loose[struct {
		Type loose[string] `json:"type"`
	}] `json:"environment"`
}

// Block is an entry of the content of a message of Anthropic.
type Block struct {
	function `json:",inline"`

	Type      string `json:"type"`
	ID        string `json:"id"`
	ToolUseID string `json:"tool_use_id"`
}

// chatCall is a call of Chat Completions.
type chatCall struct {
	ID       string    `json:"id"`
	Type     string    `json:"type"`
	Function *function `json:"function"`
	Custom   function  `json:"custom"`
}

// function is what is called, and with what: a function with arguments, which are a
// JSON text, or a custom tool with an input.
type function struct {
	Name  string         `json:"name"`
	Args  jsontext.Value `json:"arguments"`
	Input jsontext.Value `json:"input"`
}

// Call is one of a model, in a message.
type Call struct {
	ID, Name string
	// Custom is the type of a call that is no function's; empty for one that is.
	Custom string

	raw jsontext.Value
}

// maxIDBytes bounds the id of a call.
const maxIDBytes = 256

// Unanswerable says why no result can be given to the call, after "has"; empty when one can.
// No provider's id has a control character, and a lone surrogate is read as the replacement
// for all of them.
func (c *Call) Unanswerable() string {
	switch {
	case c.ID == "":
		return "a call without an id"
	case len(c.ID) > maxIDBytes:
		return fmt.Sprintf("a call with an id of %d bytes: at most %d", len(c.ID), maxIDBytes)
	case strings.ContainsFunc(c.ID, func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) }):
		return "a call with an id that is no text"
	}
	return ""
}

// Arguments are those of the call as the model wrote them: a text in JSON is that text.
func (c *Call) Arguments() string {
	switch {
	case len(c.raw) == 0 || c.raw.Kind() == jsontext.KindNull:
		return ""
	case c.raw.Kind() == jsontext.KindString:
		return unquoted(c.raw)
	}
	return string(c.raw)
}

// Unreadable is the error of a list that cannot be read.
type Unreadable struct {
	// Field is its name in the entry.
	Field string
	Err   error
}

func (e *Unreadable) Error() string { return fmt.Sprintf("%s: cannot be read: %v", e.Field, e.Err) }

func (e *Unreadable) Unwrap() error { return e.Err }

// ReadEntry reads an entry of a conversation.
func ReadEntry(raw string) (*Entry, error) { return readEntry([]byte(raw), Reading) }

func readEntry(raw []byte, reading jsonv2.Options) (*Entry, error) {
	var m Entry
	err := jsonv2.Unmarshal(raw, &m, reading)
	return &m, ofJSON(err)
}

// ofJSON is the error of a decoder in words of JSON: who sent it knows of no types of Go.
func ofJSON(err error) error {
	wrong, ok := errors.AsType[*jsonv2.SemanticError](err)
	if !ok {
		if err != nil {
			err = errors.New(strings.TrimPrefix(err.Error(), "jsontext: "))
		}
		return err
	}
	expected, found := "an object", map[jsontext.Kind]string{'n': "null", '"': "a string", '0': "a number", '{': "an object", '[': "an array"}[wrong.JSONKind]
	if wrong.GoType.Kind() == reflect.String {
		expected = "a string"
	}
	said := fmt.Sprintf("expected %s, found %s", expected, cmp.Or(found, "a boolean"))
	if wrong.JSONPointer != "" {
		said = fmt.Sprintf("at %s: %s", wrong.JSONPointer, said)
	}
	return errors.New(said)
}

// Calls visits the calls of an entry in their order, up to the first error. That of what
// cannot be read is an *Unreadable.
func (m *Entry) Calls(of Format, visit func(*Call) error) error {
	switch of {
	case Anthropic:
		return Each(m.Content, "content", func(_ int, b *Block) error {
			if b.Type != "tool_use" {
				return nil
			}
			return visit(b.call(b.ID, ""))
		})
	case OpenAI:
		return Each(m.ToolCalls, "tool_calls", func(_ int, c *chatCall) error {
			if c.Function == nil {
				kind := c.Type
				if kind == "" {
					kind = "unknown"
				}
				return visit(c.Custom.call(c.ID, kind))
			}
			return visit(c.Function.call(c.ID, ""))
		})
	case OpenAIResponses:
		switch _, is := callItems[m.Type]; {
		case m.Type == "function_call":
			return visit(m.call(m.CallID, ""))
		case is && !m.hosted(): // nobody runs them but the program
			c := m.call(m.CallID, m.Type)
			c.Name = cmp.Or(c.Name, m.Type)
			return visit(c)
		}
	}
	return nil
}

// callItems are the types of the items of Responses that are calls which a program answers, each by
// an item of the type with _output behind it. Those of what the provider has built in, which are true,
// are answered by more than a text. An mcp_approval_request is none: the provider goes on without an answer.
var callItems = map[string]bool{
	"function_call": false, "custom_tool_call": false,
	"computer_call": true, "shell_call": true, "local_shell_call": true, "apply_patch_call": true, "tool_search_call": true,
}

// hosted reports a search for tools, or its output, that the provider has made itself: it is for nobody to answer.
func (m *Entry) hosted() bool {
	return strings.HasPrefix(m.Type, "tool_search_") && (m.CallID == "" || m.Execution.is == "server")
}

// AnswerTo is the type of the item that answers a call of a type.
func AnswerTo(kind string) string {
	if kind == "tool_search_call" {
		return "tool_search_output"
	}
	return kind + "_output"
}

// ByProgramAlone reports a type of call that no text answers: nobody but its program can.
func ByProgramAlone(custom string) bool { return callItems[custom] }

// Answers is the type of the call that an item of Responses answers, and its id; empty for one that
// answers none.
func (m *Entry) Answers() (kind, id string) {
	for of := range callItems {
		if AnswerTo(of) == m.Type && !m.hosted() {
			kind = of
		}
	}
	if kind == "local_shell_call" { // has it there, as its provider declares it
		return kind, cmp.Or(m.CallID, m.ID.is)
	}
	return kind, m.CallID
}

func (f *function) call(id, custom string) *Call {
	c := &Call{ID: id, Name: f.Name, Custom: custom, raw: f.Args}
	if len(c.raw) == 0 {
		c.raw = f.Input
	}
	return c
}

// Each reads the entries of a list one by one, up to the first error: as values all of
// them would take a hundred times as much as their text. What is no list has none. The
// error of what cannot be read is an *Unreadable.
func Each[T any](list jsontext.Value, field string, visit func(i int, one *T) error) error {
	if list.Kind() != jsontext.KindBeginArray {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(list), lenient)
	if _, err := dec.ReadToken(); err != nil {
		return &Unreadable{field, ofJSON(err)}
	}
	one := new(T)
	for i := 0; dec.PeekKind() != jsontext.KindEndArray; i++ {
		*one = *new(T)
		if err := jsonv2.UnmarshalDecode(dec, one, lenient); err != nil {
			return &Unreadable{field, ofJSON(err)}
		}
		if err := visit(i, one); err != nil {
			return err
		}
	}
	return nil
}

// unquoted is a text in JSON. Half of a character stays the escape that it is: no text has
// it, and the JSON in the text can.
func unquoted(raw []byte) string {
	var text string
	if json.Unmarshal(withHalves(raw), &text) != nil {
		return string(raw)
	}
	return text
}

// withHalves escapes the escape of each half of a character that stands alone.
func withHalves(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`\u`)) {
		return raw
	}
	var all []byte
	for len(raw) > 0 {
		next, is := 1, raw[0] == '\\' && len(raw) > 1
		if is {
			next = 2
		}
		if first, escaped := escapedUnit(raw); is && escaped {
			next = 6
			if utf16.IsSurrogate(first) {
				second, _ := escapedUnit(raw[next:])
				if utf16.DecodeRune(first, second) == utf8.RuneError {
					all = append(all, '\\')
				} else {
					next = 12
				}
			}
		}
		all, raw = append(all, raw[:next]...), raw[next:]
	}
	return all
}

// escapedUnit is the \uXXXX at the beginning of a text.
func escapedUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit), err == nil
}
