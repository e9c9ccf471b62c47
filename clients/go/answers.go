package sidecall

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// object is one in JSON.
type object = map[string]any

// Answers returns what is to be appended for the results of the turn's calls, in this
// order and with nothing in between:
//
//	anthropic         one user message, its tool_result blocks in the order of the calls
//	openai            one tool message per call, then, when there are pictures, a user
//	                  message that has them
//	openai-responses  one function_call_output item per call
//
// A result's content stands there word for word, and after it what was tried before and
// what is to be noticed.
func (t *Turn) Answers(results []*Result) ([]json.RawMessage, error) {
	if len(results) == 0 {
		return nil, nil
	}
	var messages []object
	switch t.Format {
	case Anthropic:
		messages = toAnthropic(results)
	case OpenAI:
		messages = toOpenAI(results)
	case OpenAIResponses:
		messages = toResponses(results)
	default:
		return nil, fmt.Errorf("%w: there is no format %q", ErrNoMessage, t.Format)
	}
	raw := make([]json.RawMessage, len(messages))
	for i, m := range messages {
		var err error
		if raw[i], err = json.Marshal(m); err != nil {
			return nil, err
		}
	}
	return raw, nil
}

// notRun are the results of the calls of a message that was cut: none of them is run,
// as nobody knows whether it is what the model meant.
func (t *Turn) notRun() []*Result {
	results := make([]*Result, len(t.Calls))
	for i, call := range t.Calls {
		e := &Error{
			Code:       "CANCELLED",
			Constraint: fmt.Sprintf("the message ends early (%s), so its calls may be incomplete", t.Cut),
			Hint:       "Nothing was run. Make the calls again, fewer of them or with shorter arguments in one message.",
		}
		results[i] = &Result{
			ToolUseId: call.ID, Outcome: sidecallv1.Outcome_OUTCOME_ERROR, IsError: true, Content: fiveFields(e), Error: e, Violations: []*Error{e},
			Recovery: &sidecallv1.Recovery{Class: sidecallv1.RecoveryClass_RECOVERY_CLASS_TRANSIENT, Retryable: true},
		}
	}
	return results
}

func fiveFields(e *Error) string {
	text, err := json.Marshal(struct {
		Code       string `json:"code"`
		Field      string `json:"field"`
		Constraint string `json:"constraint"`
		Received   string `json:"received"`
		Hint       string `json:"hint"`
	}{e.GetCode(), e.GetField(), e.GetConstraint(), e.GetReceived(), e.GetHint()})
	if err != nil { // five strings
		panic(err)
	}
	return string(text)
}

// shows says which media types a provider is shown as they are.
type shows func(mediaType string) bool

func pictures(mediaType string) bool {
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

// documents are what Anthropic takes in a result beside pictures.
func documents(mediaType string) bool { return pictures(mediaType) || mediaType == "application/pdf" }

// texts is all that a result has in words: its content, then what was tried before it,
// what is to be noticed, and blocks that are text or cannot be shown.
func texts(r *Result, shown shows) []string {
	var all []string
	add := func(text string) {
		if text != "" {
			all = append(all, text)
		}
	}
	add(r.GetContent())
	add(r.GetRecovery().GetContext())
	for _, notice := range r.GetNotices() {
		add(notice)
	}
	for _, b := range r.GetBlocks() {
		switch {
		case len(b.GetData()) > 0 && shown(b.GetMimeType()):
		case b.GetText() != "" && b.GetUri() != "":
			add(b.GetUri() + "\n" + b.GetText())
		case b.GetText() != "":
			add(b.GetText())
		case b.GetType() == "resource_link":
			add(strings.TrimSpace(b.GetName() + " " + b.GetUri()))
		case b.GetOutputRef() == "": // of one with a handle the notices speak
			kind := b.GetMimeType()
			if kind == "" {
				kind = "unknown type"
			}
			add(fmt.Sprintf("(%s of %s, %d bytes: it cannot be shown here)", b.GetType(), kind, b.GetSize()))
		}
	}
	return all
}

// eachShown calls f for each block that is shown as it is, with its bytes in base64.
func eachShown(r *Result, shown shows, f func(mediaType, data string)) {
	for _, b := range r.GetBlocks() {
		if len(b.GetData()) > 0 && shown(b.GetMimeType()) {
			f(b.GetMimeType(), base64.StdEncoding.EncodeToString(b.GetData()))
		}
	}
}

func toAnthropic(results []*Result) []object {
	content := make([]object, len(results))
	for i, r := range results {
		said := texts(r, documents)
		var blocks []object
		for _, text := range said {
			blocks = append(blocks, object{"type": "text", "text": text})
		}
		eachShown(r, documents, func(mediaType, data string) {
			kind := "image"
			if !pictures(mediaType) {
				kind = "document"
			}
			blocks = append(blocks, object{"type": kind, "source": object{"type": "base64", "media_type": mediaType, "data": data}})
		})
		content[i] = object{"type": "tool_result", "tool_use_id": r.GetToolUseId(), "content": blocks}
		if len(blocks) == 0 || len(blocks) == 1 && len(said) == 1 && said[0] == r.GetContent() {
			content[i]["content"] = r.GetContent()
		}
		if r.GetIsError() {
			content[i]["is_error"] = true
		}
	}
	return []object{{"role": "user", "content": content}}
}

func toOpenAI(results []*Result) []object {
	var messages, shown []object
	for _, r := range results {
		// As one text: not every server that speaks this format takes a list.
		messages = append(messages, object{"role": "tool", "tool_call_id": r.GetToolUseId(), "content": strings.Join(texts(r, pictures), "\n\n")})
		first := true
		eachShown(r, pictures, func(mediaType, data string) {
			if first {
				shown = append(shown, object{"type": "text", "text": "Returned by " + r.GetToolUseId() + ":"})
			}
			first = false
			shown = append(shown, object{"type": "image_url", "image_url": object{"url": "data:" + mediaType + ";base64," + data}})
		})
	}
	if len(shown) > 0 { // a tool message has none
		messages = append(messages, object{"role": "user", "content": shown})
	}
	return messages
}

func toResponses(results []*Result) []object {
	items := make([]object, len(results))
	for i, r := range results {
		said := texts(r, pictures)
		items[i] = object{"type": "function_call_output", "call_id": r.GetToolUseId(), "output": strings.Join(said, "\n\n")}
		var shown []object
		eachShown(r, pictures, func(mediaType, data string) {
			shown = append(shown, object{"type": "input_image", "image_url": "data:" + mediaType + ";base64," + data})
		})
		if len(shown) > 0 {
			var parts []object
			for _, text := range said {
				parts = append(parts, object{"type": "input_text", "text": text})
			}
			items[i]["output"] = append(parts, shown...)
		}
	}
	return items
}

// ToolsFor are tools as a provider takes them in its tools parameter.
func ToolsFor(format Format, tools []*Tool) ([]json.RawMessage, error) {
	all := make([]json.RawMessage, len(tools))
	for i, tool := range tools {
		about := object{"name": tool.GetName(), "description": tool.GetDescription()}
		schema := json.RawMessage(tool.GetInputSchemaJson())
		var entry object
		switch format {
		case Anthropic:
			about["input_schema"] = schema
			entry = about
		case OpenAI, OpenAIResponses:
			// Schemas of tools are not written for a provider's strict mode.
			about["parameters"], about["strict"] = schema, false
			if entry = about; format == OpenAI {
				entry = object{"function": about}
			}
			entry["type"] = "function"
		default:
			return nil, fmt.Errorf("there is no format %q: want %s, %s or %s", format, Anthropic, OpenAI, OpenAIResponses)
		}
		var err error
		if all[i], err = json.Marshal(entry); err != nil {
			return nil, fmt.Errorf("tool %s: %w", tool.GetName(), err)
		}
	}
	return all, nil
}
