package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/identity"
	"github.com/sidecall/sidecall/internal/limit"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// face is what the clients of one profile see.
type face struct {
	servers

	server *sdk.Server
	// handler makes the calls.
	handler sdk.ToolHandler
	// hasServers: there are MCP servers behind it.
	hasServers bool
	// nameless is done when the log was told of a call that nobody would know again.
	nameless sync.Once

	mu     sync.Mutex
	listed map[string]*sidecallv1.Tool

	subscriptions subscriptions
	// tasks are the calls that may become tasks, while they run here. Whoever cancels one lets its
	// caller leave, which cancels what may be cancelled; what runs in another process goes on.
	tasks cancels[identity.Call]
	// leaving is the front's, of what ends subscriptions with a session, and of calls that have no request any more.
	leaving *sync.WaitGroup
	asking  *asking // the front's
}

func capabilities(servers bool) *sdk.ServerCapabilities {
	c := &sdk.ServerCapabilities{
		Tools:        &sdk.ToolCapabilities{ListChanged: true},
		Experimental: map[string]any{identity.Extension: map[string]any{"version": 1}},
	}
	c.AddExtension(tasksExtension, nil)
	if servers {
		c.Resources, c.Prompts, c.Completions = &sdk.ResourceCapabilities{Subscribe: true, ListChanged: true}, &sdk.PromptCapabilities{ListChanged: true}, new(sdk.CompletionCapabilities)
		c.Logging = new(sdk.LoggingCapabilities) //nolint:staticcheck // it works as long as clients have it
	}
	return c
}

// sessions is how many clients are connected.
func (f *face) sessions() (n int) {
	for range f.server.Sessions() {
		n++
	}
	return n
}

// idle reports that nobody is there, and nothing left of anybody.
func (f *face) idle() bool {
	return f.sessions() == 0 && f.subscriptions.none() && f.tasks.none()
}

// recovered keeps a bug in one request from ending the process: the library has no net.
func (o *Options) recovered(method string, err *error) {
	if p := recover(); p != nil {
		id := "err_" + rand.Text()[:12]
		o.Log.Error("panic", "id", id, "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the sidecar failed on this request; the operator finds it in the log as " + id}
	}
}

func (f *face) has(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listed[name] != nil
}

// look takes over the tools that the profile has now. Sessions are told of what has changed.
func (f *face) look(ctx context.Context) error {
	now := map[string]*sidecallv1.Tool{}
	for page := ""; ; {
		res, err := f.options.Tools.ListTools(ctx, &sidecallv1.ListToolsRequest{Profile: f.profile, PageToken: page})
		if err != nil {
			return err
		}
		for _, tool := range res.GetTools() {
			now[tool.GetName()] = tool
		}
		if page = res.GetNextPageToken(); page == "" {
			break
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var gone []string
	for name := range f.listed {
		if now[name] == nil {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		f.server.RemoveTools(gone...)
	}
	for name, tool := range now {
		if proto.Equal(f.listed[name], tool) {
			continue
		}
		if err := f.add(tool); err != nil {
			f.options.Log.Warn("a tool that cannot be told over MCP", "tool", name, "error", err)
		}
	}
	f.listed = now
	return nil
}

// add makes a tool known to clients. The library panics at a schema that it cannot tell.
func (f *face) add(tool *sidecallv1.Tool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			f.server.RemoveTools(tool.GetName())
			err = fmt.Errorf("%v", p)
		}
	}()
	told, err := listed(tool)
	if err != nil {
		return err
	}
	f.server.AddTool(told, f.handler)
	return nil
}

// What the _meta of a tool says.
const (
	metaEffect       = "dev.sidecall/effect"
	metaIdempotency  = "dev.sidecall/idempotency"
	metaOutputSchema = "dev.sidecall/outputSchema"
)

// howToName is told with each tool that has an effect.
const howToName = "_meta dev.sidecall/toolUseId names the call: sent again with it, it runs once and is answered as the first time. Without it every request is a call of its own."

// listed is a tool as clients are told of it.
//
// Its output schema stands in _meta alone: of a tool that has one, clients demand a structured
// result that fits, which one that was cut for the model's sake would not be.
func listed(tool *sidecallv1.Tool) (*sdk.Tool, error) {
	var schema map[string]json.RawMessage
	if err := json.Unmarshal([]byte(tool.GetInputSchemaJson()), &schema); err != nil {
		return nil, err
	}
	input := json.RawMessage(tool.GetInputSchemaJson())
	if string(schema["type"]) != `"object"` { // which arguments are, whether the schema says so or not
		schema["type"] = json.RawMessage(`"object"`)
		encoded, err := json.Marshal(schema)
		if err != nil {
			return nil, err
		}
		input = encoded
	}
	told := &sdk.Tool{
		Name: tool.GetName(), Description: tool.GetDescription(), InputSchema: input, Title: tool.GetAnnotations()["title"],
		Annotations: annotations(tool),
		Meta:        sdk.Meta{metaEffect: strings.ToLower(strings.TrimPrefix(tool.GetEffect().String(), "EFFECT_"))},
	}
	if tool.GetEffect() != sidecallv1.Effect_EFFECT_READ_ONLY {
		told.Meta[metaIdempotency] = howToName
	}
	if schema := tool.GetOutputSchemaJson(); schema != "" {
		told.Meta[metaOutputSchema] = json.RawMessage(schema)
	}
	return told, nil
}

// annotations are those of the effect that counts; for the rest, those that the tool has.
func annotations(tool *sidecallv1.Tool) *sdk.ToolAnnotations {
	hint := func(name string) *bool {
		said, ok := tool.GetAnnotations()[name]
		if !ok {
			return nil
		}
		value := said == "true"
		return &value
	}
	effect := tool.GetEffect()
	return &sdk.ToolAnnotations{
		Title:           tool.GetAnnotations()["title"],
		ReadOnlyHint:    effect == sidecallv1.Effect_EFFECT_READ_ONLY,
		IdempotentHint:  effect == sidecallv1.Effect_EFFECT_READ_ONLY || effect == sidecallv1.Effect_EFFECT_IDEMPOTENT,
		DestructiveHint: hint("destructiveHint"),
		OpenWorldHint:   hint("openWorldHint"),
	}
}

// heard logs what a client could not be told: it may have gone.
func (o *Options) heard(err error) {
	if err != nil {
		o.Log.Debug("mcp: a client that cannot be told", "error", err)
	}
}

// followAgain is how long it takes until a sidecar that ended is followed again.
const followAgain = time.Second

// follow tells sessions what changes, until ctx ends or there is no such profile any more. Once the
// face is not what a new one would be, retire is called: who comes then gets another.
func (f *face) follow(ctx context.Context, retire func()) {
	away := false
	there := func() {
		if away {
			f.options.Log.Info("mcp: the sidecar is back")
		}
		away = false
	}
	for ctx.Err() == nil {
		switch err := f.hear(ctx, retire, there); {
		case status.Code(err) == codes.InvalidArgument:
			retire()
			return
		case ctx.Err() != nil:
		case !Unconnected(err):
			f.options.Log.Debug("mcp: the sidecar is not followed for now", "error", err)
		case f.options.Lost != nil:
			f.options.Lost()
		case !away:
			away = true
			f.options.Log.Warn("mcp: no sidecar answers; it is asked again until one does", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(followAgain):
		}
	}
}

// hear tells sessions what the sidecar says, until it says no more: the error is why. there is called with each thing
// that it says.
func (f *face) hear(ctx context.Context, retire, there func()) error {
	stream, err := f.options.Servers.Follow(ctx, &sidecallv1.FollowRequest{Profile: f.profile})
	if err != nil {
		return err
	}
	for {
		said, err := stream.Recv()
		if err != nil {
			return err
		}
		there()
		if id := said.GetFollowId(); id != "" {
			f.subscriptions.again(ctx, id)
		}
		switch said.GetMethod() {
		case "notifications/tools/list_changed":
			err = f.look(ctx)
			if servers, wrong := f.there(ctx); wrong == nil && servers != f.hasServers {
				retire()
			}
		case "notifications/prompts/list_changed":
			f.server.AddPrompt(&sdk.Prompt{Name: nobody}, nil) // which tells sessions that there is a change
			f.server.RemovePrompts(nobody)
		case "notifications/resources/list_changed":
			f.server.AddResource(&sdk.Resource{URI: "sidecall:" + nobody, Name: nobody}, nil)
			f.server.RemoveResources("sidecall:" + nobody)
		case "notifications/resources/updated":
			params := new(sdk.ResourceUpdatedNotificationParams)
			if json.Unmarshal([]byte(said.GetParamsJson()), params) == nil {
				err = f.server.ResourceUpdated(ctx, params)
			}
		}
		f.options.heard(err)
	}
}

// nobody is the name of what is there for no longer than it takes to say that something has
// changed: the lists that clients get are the servers' own.
const nobody = "sidecall-changed"

// Options are what a front is made of.
type Options struct {
	// Tools is the sidecar.
	Tools sidecallv1.ToolServiceClient
	// Servers are the MCP servers behind it.
	Servers sidecallv1.McpServiceClient
	// Version is the sidecar's own, which clients are told.
	Version string
	// Log is told what clients did wrong, and that the sidecar is away; nil drops it.
	Log *slog.Logger
	// Lost, if not nil, is called when no sidecar answers any more: it is one that does not come back.
	Lost func()
	// Scope bounds the conversations of requests that name none, where there is no session to
	// do it; empty where there is nothing.
	Scope string
	// MaxRequestBytes bounds one request.
	MaxRequestBytes int64
	// Bytes is what requests take room of while they are worked on; nil is without a bound.
	Bytes *limit.Bytes
}

// tasksExtension is the name of the extension of 2026-07-28 by which a client takes the handle of
// a task in place of a result.
const tasksExtension = "io.modelcontextprotocol/tasks"
