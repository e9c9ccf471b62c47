package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	size       int
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
	list := newToolList()
	list.keyed = s.keyed()
	defer func() {
		s.taskTools.Store(&list.tasks)
		if list.leftOut > maxComplaints {
			b.log.Warn("more tools were left out", "tools", list.leftOut-maxComplaints)
		}
	}()
	cursor := ""
	for range maxPages {
		p, err := b.page(ctx, s, cursor)
		if err != nil {
			return nil, err
		}
		if list.size += p.size; list.size > b.cfg.MaxList {
			b.log.Warn("the server's tool list is longer than is read", "limit_bytes", b.cfg.MaxList)
			return list.tools, nil
		}
		if full := b.add(&list, p.Tools); full {
			b.log.Warn("the server has more tools than are read", "limit", maxTools)
			return list.tools, nil
		}
		if p.NextCursor == "" || p.NextCursor == cursor {
			return list.tools, nil
		}
		cursor = p.NextCursor
	}
	b.log.Warn("the server's tool list does not end", "pages", maxPages)
	return list.tools, nil
}

// toolList is the tool list as far as it was read.
type toolList struct {
	tools []tool.Discovered
	seen  map[string]bool
	size  int // bytes of its pages
	keyed bool
	// tasks are those that can only be called as tasks.
	tasks map[string]bool
	// leftOut counts the tools that could not be taken.
	leftOut int
}

func newToolList() toolList {
	return toolList{seen: make(map[string]bool), tasks: make(map[string]bool)}
}

// add takes the tools of a page; full when there are more than are taken.
func (b *Backend) add(list *toolList, page []json.RawMessage) (full bool) {
	for _, raw := range page {
		found, asTask, err := b.discovered(raw)
		switch {
		case err == nil && !list.seen[found.Name]:
			if len(list.tools) == maxTools {
				return true
			}
			list.seen[found.Name], found.Keyed = true, list.keyed
			list.tools = append(list.tools, found)
			if asTask {
				list.tasks[found.Name] = true
			}
			continue
		case err == nil:
			err = fmt.Errorf("the name %q is taken", tool.ShortenBytes(found.Name, maxShownName))
		}
		if list.leftOut++; list.leftOut <= maxComplaints {
			b.log.Warn("a tool was left out", "error", err)
		}
	}
	return false
}

func (b *Backend) page(ctx context.Context, s *session, cursor string) (page, error) {
	c := &capture{whole: true}
	result, err := s.client.ListTools(c.in(ctx), &mcp.ListToolsParams{Cursor: cursor})
	a := s.done(c)
	switch a.outcome {
	case refused:
		if a.rpc.Code == jsonrpc.CodeMethodNotFound {
			return page{}, nil // a server of prompts or resources alone
		}
		return page{}, a.rpc
	case resulted:
	case unanswered:
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return page{}, withoutURL(err)
		}
		// From the SDK's cache.
		if a.result, err = json.Marshal(result); err != nil {
			return page{}, err
		}
	case httpError:
		return page{}, fmt.Errorf("the server answers with HTTP status %d", a.status)
	case tooLarge:
		return page{}, fmt.Errorf("the tool list has more than %d bytes", b.cfg.MaxMessage)
	case notMCP, brokenOff:
		return page{}, a.err
	default:
		panic(fmt.Sprintf("mcptool: no such outcome: %d", a.outcome))
	}
	p := page{size: len(a.result)}
	if err := json.Unmarshal(a.result, &p); err != nil {
		return page{}, fmt.Errorf("the tool list is not in the shape that MCP demands: %w", err)
	}
	return p, nil
}

// discovered reads one tool, and repairs what can be repaired. asTask says that it can only be
// called as a task.
func (b *Backend) discovered(raw json.RawMessage) (d tool.Discovered, asTask bool, err error) {
	var l listed
	if err := json.Unmarshal(raw, &l); err != nil {
		return d, false, fmt.Errorf("it is malformed: %w", err)
	}
	if l.Name == "" {
		return d, false, errors.New("it has no name")
	}
	d = tool.Discovered{Name: l.Name, Description: l.Description}
	var repaired bool
	if d.InputSchema, repaired = inputSchema(l.InputSchema); repaired {
		b.log.Warn("a tool's input schema cannot describe an object; any object is accepted", "tool", l.Name)
	}
	if isObject(l.OutputSchema) {
		d.OutputSchema = l.OutputSchema
	}
	var a annotations
	if len(l.Annotations) > 0 && json.Unmarshal(l.Annotations, &a) != nil {
		b.log.Warn("a tool's annotations are malformed and ignored", "tool", l.Name)
		a = annotations{}
	}
	if l.Title != "" {
		a.Title = l.Title
	}
	d.Effect, d.Claimed = a.effect()
	d.Annotations = a.values()
	return d, l.mustBeTask(), nil
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
