package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// maxTools bounds what one server may offer; the rest is left out.
	maxTools = 10_000
	// maxPages bounds the pages of one list.
	maxPages = 1_000
	// maxComplaints bounds the log lines about the tools of one list.
	maxComplaints = 20
	// maxShownName is how much of a tool's name a log line shows.
	maxShownName = 200
)

// anyObject is the schema of a tool that declares none that can be used.
var anyObject = json.RawMessage(`{"type":"object"}`)

// page is one page of the tool list. Tools are read one by one, so that one that
// is malformed costs itself alone.
type page struct {
	Tools      fewItems `json:"tools"`
	NextCursor string   `json:"nextCursor"`
}

// listed is a tool as a server lists it.
type listed struct {
	Name         string          `json:"name"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
	Annotations  json.RawMessage `json:"annotations"`
	Execution    json.RawMessage `json:"execution"`
}

// mustBeTask reports that a tool says that it can only be called as a task.
func (l listed) mustBeTask() bool {
	var execution struct {
		TaskSupport string `json:"taskSupport"`
	}
	return json.Unmarshal(l.Execution, &execution) == nil && execution.TaskSupport == "required"
}

type annotations struct {
	Title       string `json:"title"`
	ReadOnly    *bool  `json:"readOnlyHint"`
	Idempotent  *bool  `json:"idempotentHint"`
	Destructive *bool  `json:"destructiveHint"`
	OpenWorld   *bool  `json:"openWorldHint"`
}

// discover reads the whole tool list. Schemas keep the server's bytes.
func (b *Backend) discover(ctx context.Context, s *session) ([]tool.Discovered, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.timing.List,
		fmt.Errorf("the server did not answer within %s", b.timing.List))
	defer cancel()
	list := NewListing(b.log, s.keyed())
	list.most = b.cfg.MaxList
	err := list.Read(func(cursor string) (json.RawMessage, error) { return s.page(ctx, cursor, b.cfg.MaxMessage) })
	s.taskTools.Store(&list.tasks)
	return list.tools, err
}

// Listing is a tool list as far as it was read, page by page, within the bounds of this backend.
type Listing struct {
	log   *slog.Logger // is told of what is left out
	tools []tool.Discovered
	seen  map[string]bool
	// size is how many bytes its pages have, most how many are read.
	size, most int
	keyed      bool
	// tasks are those that can only be called as tasks.
	tasks map[string]bool
	// leftOut counts the tools that could not be taken.
	leftOut int
}

// NewListing begins a list of a server that honours the idempotency key of a call, if keyed.
func NewListing(log *slog.Logger, keyed bool) *Listing {
	return &Listing{log: log, keyed: keyed, most: defaultMaxList, seen: make(map[string]bool), tasks: make(map[string]bool)}
}

// Read reads the list, page by page: ask has the server answer tools/list from a cursor on.
func (l *Listing) Read(ask func(cursor string) (json.RawMessage, error)) error {
	defer func() {
		if l.leftOut > maxComplaints {
			l.log.Warn("more tools were left out", "tools", l.leftOut-maxComplaints)
		}
	}()
	cursor := ""
	for range maxPages {
		result, err := ask(cursor)
		if refused, ok := errors.AsType[*jsonrpc.Error](err); ok && refused.Code == jsonrpc.CodeMethodNotFound {
			return nil // a server of prompts or resources alone
		}
		if err != nil {
			return err
		}
		var p page
		if err := json.Unmarshal(result, &p); err != nil {
			return fmt.Errorf("the tool list is not in the shape that MCP demands: %w", err)
		}
		if l.size += len(result); l.size > l.most {
			l.log.Warn("the server's tool list is longer than is read", "limit_bytes", l.most)
			return nil
		}
		if full := l.add(p.Tools); full {
			l.log.Warn("the server has more tools than are read", "limit", maxTools)
			return nil
		}
		if p.NextCursor == "" || p.NextCursor == cursor {
			return nil
		}
		cursor = p.NextCursor
	}
	l.log.Warn("the server's tool list does not end", "pages", maxPages)
	return nil
}

// Tools are those that were read.
func (l *Listing) Tools() []tool.Discovered { return l.tools }

// add takes the tools of a page; full when there are more than are taken.
func (l *Listing) add(page []json.RawMessage) (full bool) {
	for _, raw := range page {
		found, asTask, err := l.discovered(raw)
		switch {
		case err == nil && !l.seen[found.Name]:
			if len(l.tools) == maxTools {
				return true
			}
			l.seen[found.Name], found.Keyed = true, l.keyed
			l.tools = append(l.tools, found)
			if asTask {
				l.tasks[found.Name] = true
			}
			continue
		case err == nil:
			err = fmt.Errorf("the name %q is taken", tool.ShortenBytes(found.Name, maxShownName))
		}
		if l.leftOut++; l.leftOut <= maxComplaints {
			l.log.Warn("a tool was left out", "error", err)
		}
	}
	return false
}

// page asks for one page of the tool list.
func (s *session) page(ctx context.Context, cursor string, limit int) (json.RawMessage, error) {
	c := &capture{whole: true}
	result, err := s.client.ListTools(c.in(ctx), &mcp.ListToolsParams{Cursor: cursor})
	a := s.done(c)
	switch a.outcome {
	case refused:
		return nil, a.rpc
	case resulted:
		return a.result, nil
	case unanswered:
		if err == nil {
			return json.Marshal(result) // from the SDK's cache
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, withoutURL(err)
	case httpError:
		return nil, fmt.Errorf("the server answers with HTTP status %d", a.status)
	case tooLarge:
		return nil, fmt.Errorf("the tool list has more than %d bytes", limit)
	case notMCP, brokenOff:
		return nil, a.err
	default:
		panic(fmt.Sprintf("mcptool: no such outcome: %d", a.outcome))
	}
}

// discovered reads one tool, and repairs what can be repaired. asTask says that it can only be
// called as a task.
func (l *Listing) discovered(raw json.RawMessage) (d tool.Discovered, asTask bool, err error) {
	var one listed
	if err := json.Unmarshal(raw, &one); err != nil {
		return d, false, fmt.Errorf("it is malformed: %w", err)
	}
	if one.Name == "" {
		return d, false, errors.New("it has no name")
	}
	d = tool.Discovered{Name: one.Name, Description: one.Description}
	var repaired bool
	if d.InputSchema, repaired = inputSchema(one.InputSchema); repaired {
		l.log.Warn("a tool's input schema cannot describe an object; any object is accepted", "tool", one.Name)
	}
	if isObject(one.OutputSchema) {
		d.OutputSchema = one.OutputSchema
	}
	var a annotations
	if len(one.Annotations) > 0 && json.Unmarshal(one.Annotations, &a) != nil {
		l.log.Warn("a tool's annotations are malformed and ignored", "tool", one.Name)
		a = annotations{}
	}
	if one.Title != "" {
		a.Title = one.Title
	}
	d.Effect, d.Claimed = a.effect()
	d.Annotations = a.values()
	return d, one.mustBeTask(), nil
}

// inputSchema returns a schema that says that it describes an object. MCP
// demands that; some servers send nothing, null, a boolean or another type.
func inputSchema(raw json.RawMessage) (schema json.RawMessage, repaired bool) {
	if !isObject(raw) {
		return anyObject, true
	}
	var s struct {
		Type json.RawMessage `json:"type"`
	}
	if json.Unmarshal(raw, &s) != nil {
		return anyObject, true
	}
	var one string
	var many []string
	switch {
	case len(s.Type) == 0:
		rest := bytes.TrimLeft(bytes.TrimLeft(raw, " \t\r\n")[1:], " \t\r\n")
		if rest[0] == '}' {
			return anyObject, false
		}
		return append([]byte(`{"type":"object",`), rest...), false
	case json.Unmarshal(s.Type, &one) == nil:
		if one == "object" {
			return raw, false
		}
	case json.Unmarshal(s.Type, &many) == nil:
		if slices.Contains(many, "object") {
			return raw, false
		}
	}
	return anyObject, true
}

func isObject(raw json.RawMessage) bool {
	return jsontext.Value(raw).Kind() == jsontext.KindBeginObject
}

// effect is what the hints claim. Hints that are all absent claim nothing,
// though the protocol has defaults for them.
func (a annotations) effect() (effect tool.Effect, claimed bool) {
	yes := func(hint *bool) bool { return hint != nil && *hint }
	switch {
	case yes(a.ReadOnly):
		return tool.ReadOnly, true
	case yes(a.Idempotent):
		return tool.Idempotent, true
	default:
		return tool.NonIdempotent, a.ReadOnly != nil || a.Idempotent != nil || a.Destructive != nil
	}
}

// values are the annotations as the list of tools shows them.
func (a annotations) values() map[string]string {
	values := make(map[string]string)
	if a.Title != "" {
		values["title"] = a.Title
	}
	for name, hint := range map[string]*bool{
		"readOnlyHint": a.ReadOnly, "idempotentHint": a.Idempotent,
		"destructiveHint": a.Destructive, "openWorldHint": a.OpenWorld,
	} {
		if hint != nil {
			values[name] = strconv.FormatBool(*hint)
		}
	}
	if len(values) == 0 {
		return nil
	}
	return values
}
