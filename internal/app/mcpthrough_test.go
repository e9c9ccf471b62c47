package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// mcpServer is an MCP server of the official library that a sidecar calls, in either revision.
type mcpServer struct {
	url string
	now atomic.Pointer[http.Handler]
}

// serve has the server be another, as after a restart: it knows no session of the one before.
func (o *mcpServer) serve(server *mcp.Server) {
	of := func(*http.Request) *mcp.Server { return server }
	sessions := mcp.NewStreamableHTTPHandler(of, nil)
	none := mcp.NewStreamableHTTPHandler(of, &mcp.StreamableHTTPOptions{Stateless: true})
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28" {
			none.ServeHTTP(w, r)
			return
		}
		sessions.ServeHTTP(w, r)
	})
	o.now.Store(&handler)
}

func openMCPServer(t *testing.T, server *mcp.Server) (*mcpServer, *httptest.Server) {
	t.Helper()
	o := new(mcpServer)
	o.serve(server)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*o.now.Load()).ServeHTTP(w, r) }))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	o.url = web.URL
	return o, web
}

// before is a sidecar with a front, before MCP servers that its config names.
func before(t *testing.T, config string) (*shop, sidecallv1.ToolServiceClient) {
	t.Helper()
	socket, address := filepath.Join(harness.ShortDir(t), "s.sock"), harness.FreePort(t)
	s := started(t, parsed(t, fmt.Sprintf("listen: [%q]\nadmin: off\nhttp: %q\nstore: {memory: {}}\n%s", "unix://"+socket, address, config)), quiet())
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	<-s.Ready()
	return &shop{url: "http://" + address}, dialled(t, socket)
}

var anyArguments = json.RawMessage(`{"type":"object"}`)

func says(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// newMCPServer is a server with a tool, a prompt and a resource that are called as it is.
func newMCPServer(name, secret string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			of := req.Params.Ref.Name + req.Params.Ref.URI
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{name + " completes " + of}}}, nil
		},
	})
	s.AddTool(&mcp.Tool{Name: "tool", InputSchema: anyArguments}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return says(name), nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "prompt", Description: "of " + name + ", with " + secret}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "prompt of " + name + ", with " + secret}}}}, nil
	})
	read := func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		if strings.HasSuffix(req.Params.URI, "/none") {
			return nil, fmt.Errorf("nothing is there, says %s", secret)
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, Text: name + " has " + secret}}}, nil
	}
	s.AddResource(&mcp.Resource{URI: "test://" + name, Name: name}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "test://" + name + "/{id}", Name: name}, read)
	return s
}

// The secret that the sidecar sends its servers, and that they say again.
const serverSecret = "open-sesame-4711"

// twoMCPServers is a sidecar before two servers, one of which has a prefix.
func twoMCPServers(t *testing.T) *shop {
	t.Helper()
	a, _ := openMCPServer(t, newMCPServer("ada", serverSecret))
	b, _ := openMCPServer(t, newMCPServer("bob", serverSecret))
	s, _ := before(t, fmt.Sprintf(`
backends:
  ada: {prefix: a_, mcp: {url: %q, allow_private: true, headers: {X-Key: %s}}}
  bob: {prefix: b_, mcp: {url: %q, allow_private: true, headers: {X-Key: %s}}}
profiles: {interactive: {}, onlybob: {tools: [b_*]}}
`, a.url, serverSecret, b.url, serverSecret))
	return s
}

// seen is what a client sees of the servers behind a sidecar.
func seen(t *testing.T, session *mcp.ClientSession) (prompts, resources, templates []string) {
	t.Helper()
	for prompt, err := range session.Prompts(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		prompts = append(prompts, prompt.Name+": "+prompt.Description)
	}
	for resource, err := range session.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		resources = append(resources, resource.URI)
	}
	for template, err := range session.ResourceTemplates(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		templates = append(templates, template.URITemplate)
	}
	return prompts, resources, templates
}

func TestPromptsAndResourcesOfSeveralServers(t *testing.T) {
	inEachRevision(t, func(t *testing.T, revision string) {
		session := twoMCPServers(t).connect(t, revision, nil)
		prompts, resources, templates := seen(t, session)
		if want := []string{"a_prompt: of ada, with (redacted)", "b_prompt: of bob, with (redacted)"}; !slices.Equal(prompts, want) {
			t.Errorf("the prompts are %q, want %q", prompts, want)
		}
		if want := []string{"test://ada", "test://bob"}; !slices.Equal(resources, want) {
			t.Errorf("the resources are %q", resources)
		}
		if want := []string{"test://ada/{id}", "test://bob/{id}"}; !slices.Equal(templates, want) {
			t.Errorf("the templates are %q", templates)
		}
		for _, of := range []struct{ name, prefix string }{{"ada", "a_"}, {"bob", "b_"}} {
			got, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: of.prefix + "prompt"})
			if err != nil {
				t.Fatal(err)
			}
			if text := got.Messages[0].Content.(*mcp.TextContent).Text; text != "prompt of "+of.name+", with (redacted)" {
				t.Errorf("%sprompt says %q", of.prefix, text)
			}
			for ref, want := range map[mcp.CompleteReference]string{
				{Type: "ref/prompt", Name: of.prefix + "prompt"}: of.name + " completes prompt",
			} {
				done, err := session.Complete(t.Context(), &mcp.CompleteParams{Ref: &ref, Argument: mcp.CompleteParamsArgument{Name: "x", Value: "y"}})
				if err != nil || !slices.Equal(done.Completion.Values, []string{want}) {
					t.Errorf("%+v is completed to %v, %v; want %q", ref, done, err, want)
				}
			}
			for _, uri := range []string{"test://" + of.name, "test://" + of.name + "/7"} {
				read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
				if err != nil {
					t.Fatal(err)
				}
				if text := read.Contents[0].Text; text != of.name+" has (redacted)" {
					t.Errorf("%s is %q", uri, text)
				}
			}
		}
		if _, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "prompt"}); err == nil {
			t.Error("a prompt is there without its prefix")
		}
		_, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://ada/none"})
		if err == nil || !strings.Contains(err.Error(), "nothing is there, says (redacted)") {
			t.Errorf("an error of a server: %v", err)
		}
	})
}

// A client sees the servers of which it may call a tool, and no other.
func TestAProfileSeesTheServersOfItsTools(t *testing.T) {
	inEachRevision(t, func(t *testing.T, revision string) {
		session := twoMCPServers(t).connectTo(t, "/mcp/onlybob", revision, nil)
		prompts, resources, templates := seen(t, session)
		if !slices.Equal(prompts, []string{"b_prompt: of bob, with (redacted)"}) || !slices.Equal(resources, []string{"test://bob"}) || !slices.Equal(templates, []string{"test://bob/{id}"}) {
			t.Errorf("it sees %q, %q, %q", prompts, resources, templates)
		}
		if _, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://ada"}); err == nil {
			t.Error("a resource of a server of another profile is read")
		}
		if _, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "a_prompt"}); err == nil {
			t.Error("a prompt of a server of another profile is got")
		}
	})
}
