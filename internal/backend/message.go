package backend

import (
	"bytes"
	"encoding/json"
	"html"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// MaxMessage bounds what an upstream says about a failure, in bytes.
	MaxMessage = 1 << 10
	// maxErrorBody is the longest error body that is looked into.
	maxErrorBody = 256 << 10
	// maxReasons is how many of a list of errors are shown.
	maxReasons = 3
	// maxLooked is how many of them are looked at.
	maxLooked = 100
)

// Message finds, in the reply of a failure, the sentence that somebody wrote
// for a reader: no stack trace, no page of HTML. It may be long; Clip cuts it.
func Message(reply *tool.Reply) string {
	if reply.Binary != "" {
		return ""
	}
	text := reply.Text[:min(len(reply.Text), maxErrorBody)]
	trimmed := bytes.TrimSpace(text)
	switch {
	case len(trimmed) == 0:
		return ""
	case reply.JSON:
		if message := jsonMessage(trimmed); message != "" {
			return message
		}
		return string(trimmed)
	case trimmed[0] == '<' || strings.HasPrefix(reply.Header["content-type"], "text/html"):
		return htmlMessage(trimmed)
	default:
		return withoutStack(string(trimmed))
	}
}

// jsonMessage reads the common shapes of errors: RFC 9457 problem details,
// JSON:API, GraphQL, Google, Stripe, FastAPI and plain {"error": "..."}. Empty
// when it is none of them.
func jsonMessage(text []byte) string {
	var value any
	if json.Unmarshal(text, &value) != nil {
		return ""
	}
	if message := said(value, 0); message != "" {
		return withoutStack(message)
	}
	if object, ok := value.(map[string]any); ok {
		return remains(object)
	}
	return ""
}

// said returns what a value of an error body says.
func said(value any, depth int) string {
	if depth > 4 {
		return ""
	}
	switch v := value.(type) {
	case string:
		return strings.TrimSpace(v)
	case []any:
		return saidTogether(v, depth)
	case map[string]any:
		return saidByObject(v, depth)
	default:
		return ""
	}
}

func saidTogether(list []any, depth int) string {
	var reasons []string
	for _, item := range list[:min(len(list), maxLooked)] {
		if reason := said(item, depth+1); reason != "" && !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	if more := len(reasons) - maxReasons + max(0, len(list)-maxLooked); len(reasons) > maxReasons {
		reasons = append(reasons[:maxReasons], "and "+strconv.Itoa(more)+" more")
	}
	return strings.Join(reasons, "; ")
}

// general are the members that say what happened, the most telling first;
// special those that name each thing that is wrong.
var (
	general = []string{"message", "error_message", "errorMessage", "error_description", "detail", "error", "msg", "reason", "description", "title", "fault", "status_message"}
	special = []string{"errors", "violations", "invalid-params", "invalid_params", "issues", "details"}
	// where are the members that name the argument a message is about.
	where = []string{"field", "loc", "path", "param", "pointer", "name", "property"}
)

func saidByObject(object map[string]any, depth int) string {
	message := ""
	for _, name := range general {
		if message = said(object[name], depth+1); message != "" {
			break
		}
	}
	if title := said(object["title"], depth+1); title != "" && message != "" && title != message {
		message = title + ": " + message
	}
	if place := placeOf(object); place != "" && message != "" && depth > 0 {
		message = place + ": " + message
	}
	for _, name := range special {
		reasons := reasonsIn(object[name], depth)
		switch {
		case reasons == "" || strings.Contains(message, reasons):
		case message == "":
			message = reasons
		default:
			message += " (" + reasons + ")"
		}
	}
	return message
}

// reasonsIn reads a list of errors, or an object of errors by argument.
func reasonsIn(value any, depth int) string {
	object, ok := value.(map[string]any)
	if !ok {
		if _, isText := value.(string); isText && depth > 2 {
			return ""
		}
		return said(value, depth+1)
	}
	if message := saidByObject(object, depth+1); message != "" {
		return message
	}
	var reasons []any
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if reason := said(object[name], depth+2); reason != "" {
			reasons = append(reasons, name+": "+reason)
		}
	}
	return saidTogether(reasons, depth+1)
}

// placeOf is the argument that an error names, in dots: body.items.0.
func placeOf(object map[string]any) string {
	for _, name := range where {
		switch v := object[name].(type) {
		case string:
			return v
		case []any:
			steps := make([]string, 0, len(v))
			for _, step := range v {
				switch s := step.(type) {
				case string:
					steps = append(steps, s)
				case float64:
					steps = append(steps, strconv.FormatFloat(s, 'f', -1, 64))
				}
			}
			return strings.Join(steps, ".")
		}
	}
	return ""
}

// remains shows an object of no known shape, without its stack traces.
func remains(object map[string]any) string {
	for name := range object {
		switch strings.ToLower(name) {
		case "stack", "stacktrace", "stack_trace", "trace", "traceback", "backtrace", "exception":
			delete(object, name)
		}
	}
	if len(object) == 0 {
		return "an error without a message"
	}
	text, err := json.Marshal(object)
	if err != nil {
		return "" // decoded from JSON, so it encodes
	}
	return string(text)
}

var htmlTitle = regexp.MustCompile(`(?is)<(?:title|h1)[^>]*>(.*?)</(?:title|h1)>`)

// htmlMessage names a page by its title.
func htmlMessage(page []byte) string {
	found := htmlTitle.FindSubmatch(page)
	if found == nil {
		return "an HTML page"
	}
	title := strings.Join(strings.Fields(html.UnescapeString(string(found[1]))), " ")
	if title == "" || strings.ContainsAny(title, "<>") {
		return "an HTML page"
	}
	return "an HTML page titled " + strconv.Quote(tool.ShortenBytes(title, 200))
}

// stackLine is a line of a stack trace in one of the common languages.
var stackLine = regexp.MustCompile(`^\s*(at .+[(:].*|File ".*", line \d+.*|goroutine \d+ \[.*|\S+\.go:\d+.*|from \S+:\d+:in .*|\.\.\. \d+ more|#\d+ .+|Stack trace:?|Caused by: .*)$`)

// withoutStack keeps what stands before a stack trace; of a Python traceback
// what stands after it, which is where Python says what happened.
func withoutStack(text string) string {
	if before, after, found := strings.Cut(text, "Traceback (most recent call last)"); found {
		lines := strings.Split(strings.TrimSpace(after), "\n")
		last := strings.TrimSpace(lines[len(lines)-1])
		return strings.TrimSpace(strings.TrimSpace(before) + "\n" + last)
	}
	if !strings.Contains(text, "\n") {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if i > 0 && stackLine.MatchString(strings.TrimRight(line, "\r")) {
			return strings.TrimSpace(strings.Join(lines[:i], "\n"))
		}
	}
	return text
}
