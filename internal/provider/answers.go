package provider

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// ErrNoFormat is wrapped by the error of a format that is not known here.
var ErrNoFormat = errors.New("no format of a provider")

// object is one in JSON.
type object = map[string]any

// Answers returns the messages that tell a model what came of its calls, in the order
// of the results:
//
//	anthropic         one user message with a tool_result block per call
//	openai            one tool message per call, then, when there are pictures, a user
//	                  message that has them
//	openai-responses  one function_call_output item per call, one custom_tool_call_output
//	                  for each whose id is in custom
//
// A result's content stands there word for word, and after it what was tried before and
// what is to be noticed. Without results there is nothing to tell.
func Answers(format Format, results []*sidecallv1.ExecuteToolResponse, custom ...string) ([]json.RawMessage, error) {
	if len(results) == 0 {
		return nil, nil
	}
	var messages []object
	switch format {
	case Anthropic:
		messages = toAnthropic(results)
	case OpenAI:
		messages = toOpenAI(results)
	case OpenAIResponses:
		messages = toResponses(results, custom)
	default:
		return nil, fmt.Errorf("%w: %q", ErrNoFormat, format)
	}
	raw := make([]json.RawMessage, len(messages))
	for i, m := range messages {
		var err error
		if raw[i], err = marshal(m); err != nil {
			return nil, err
		}
	}
	return raw, nil
}

// marshal is json.Marshal, but leaves markup as it is: as \u003c it would be six times
// as long.
func marshal(m any) (json.RawMessage, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(m); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
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
func texts(r *sidecallv1.ExecuteToolResponse, shown shows) []string {
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
func eachShown(r *sidecallv1.ExecuteToolResponse, shown shows, f func(mediaType, data string)) {
	for _, b := range r.GetBlocks() {
		if len(b.GetData()) > 0 && shown(b.GetMimeType()) {
			f(b.GetMimeType(), base64.StdEncoding.EncodeToString(b.GetData()))
		}
	}
}

// Text is all that a model is told of a result in words, as one text.
func Text(r *sidecallv1.ExecuteToolResponse) string { return strings.Join(texts(r, pictures), "\n\n") }

func toAnthropic(results []*sidecallv1.ExecuteToolResponse) []object {
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

func toOpenAI(results []*sidecallv1.ExecuteToolResponse) []object {
	var messages, shown []object
	for _, r := range results {
		// As one text: not every server that speaks this format takes a list.
		messages = append(messages, object{"role": "tool", "tool_call_id": r.GetToolUseId(), "content": Text(r)})
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

func toResponses(results []*sidecallv1.ExecuteToolResponse, custom []string) []object {
	items := make([]object, len(results))
	for i, r := range results {
		said := texts(r, pictures)
		items[i] = object{"type": "function_call_output", "call_id": r.GetToolUseId(), "output": strings.Join(said, "\n\n")}
		if slices.Contains(custom, r.GetToolUseId()) {
			items[i]["type"] = "custom_tool_call_output"
		}
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
