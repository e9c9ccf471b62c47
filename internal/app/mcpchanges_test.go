package app

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/test/testkit/harness"
)

// news is what a client was told of changes.
type news struct {
	mu    sync.Mutex
	heard map[string]int
}

func (n *news) add(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.heard == nil {
		n.heard = map[string]int{}
	}
	n.heard[what]++
}

func (n *news) of(what string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.heard[what]
}

// listening is a client that notes it.
func (n *news) listening() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { n.add("tools") },
		PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { n.add("prompts") },
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { n.add("resources") },
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
			n.add(req.Params.URI)
		},
	}
}

// newsroom is an MCP server that tells of changes; it lets clients subscribe.
func newsroom() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "news", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		Capabilities: &mcp.ServerCapabilities{
			Tools:   &mcp.ToolCapabilities{ListChanged: true},
			Prompts: &mcp.PromptCapabilities{ListChanged: true}, Resources: &mcp.ResourceCapabilities{Subscribe: true, ListChanged: true},
		},
	})
	addTool(s, "one")
	addResource(s, "test://one")
	addResource(s, "test://two")
	return s
}

func addTool(s *mcp.Server, name string) {
	s.AddTool(&mcp.Tool{Name: name, InputSchema: anyArguments}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return says(name), nil })
}

func addResource(s *mcp.Server, uri string) {
	s.AddResource(&mcp.Resource{URI: uri, Name: uri}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: uri}}}, nil
	})
}

// changes has a server change each of its lists until a client has heard of all, again and again:
// a server that is just connected to may be heard later.
func (n *news) changes(t *testing.T, s *mcp.Server, round string) {
	t.Helper()
	before := map[string]int{}
	for _, what := range []string{"tools", "prompts", "resources"} {
		before[what] = n.of(what)
	}
	i := 0
	for what, change := range map[string]func(name string){
		"tools": func(name string) { addTool(s, name) },
		"prompts": func(name string) {
			s.AddPrompt(&mcp.Prompt{Name: name}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return new(mcp.GetPromptResult), nil
			})
		},
		"resources": func(name string) { addResource(s, "test://"+name) },
	} {
		harness.WaitFor(t, "a change of "+what+", "+round, func() bool {
			i++
			if i%10 == 1 {
				change(fmt.Sprintf("%s%d", round, i))
			}
			return n.of(what) > before[what]
		})
	}
}

// updates has a resource change until a client has heard of it.
func (n *news) updates(t *testing.T, s *mcp.Server, uri, when string) {
	t.Helper()
	before := n.of(uri)
	harness.WaitFor(t, "the update of "+uri+", "+when, func() bool {
		if err := s.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: uri}); err != nil {
			t.Fatal(err)
		}
		return n.of(uri) > before
	})
}

// What changes at a server reaches a client, in every pair of revisions, and also after it was restarted, which knows
// nothing of the subscriptions before.
func TestChangesOfAServerReachAClient(t *testing.T) {
	inEachRevision(t, func(t *testing.T, upstream string) {
		inEachRevision(t, func(t *testing.T, revision string) {
			server := newsroom()
			o, web := openMCPServer(t, server)
			s, _ := before(t, fmt.Sprintf("backends: {news: {mcp: {url: %q, allow_private: true, protocol: %q}}}", o.url, upstream))
			n := new(news)
			session := s.connect(t, revision, n.listening())
			if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "test://one"}); err != nil {
				t.Fatal(err)
			}
			n.changes(t, server, "first")
			n.updates(t, server, "test://one", "first")
			n.updatesNothing(t, server)
			next := newsroom()
			o.serve(next)
			web.CloseClientConnections()
			n.changes(t, next, "next")
			n.updates(t, next, "test://one", "after the restart")
		})
	})
}

// updatesNothing changes what nobody has subscribed to, and then what somebody has.
func (n *news) updatesNothing(t *testing.T, s *mcp.Server) {
	t.Helper()
	if err := s.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: "test://two"}); err != nil {
		t.Fatal(err)
	}
	n.updates(t, s, "test://one", "after another's")
	if n.of("test://two") != 0 {
		t.Error("it hears of what it has not subscribed to")
	}
}

// Of two clients that have subscribed to one resource, one leaves; the other still hears of it.
func TestAClientThatUnsubscribesSpeaksForItselfAlone(t *testing.T) {
	inEachRevision(t, func(t *testing.T, revision string) {
		server := newsroom()
		o, _ := openMCPServer(t, server)
		s, _ := before(t, fmt.Sprintf("backends: {news: {mcp: {url: %q, allow_private: true}}}", o.url))
		stays, leaves := new(news), new(news)
		var sessions []*mcp.ClientSession
		for _, n := range []*news{stays, leaves} {
			session := s.connect(t, revision, n.listening())
			if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "test://one"}); err != nil {
				t.Fatal(err)
			}
			n.updates(t, server, "test://one", "of both")
			sessions = append(sessions, session)
		}
		if err := sessions[1].Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: "test://one"}); err != nil {
			t.Fatal(err)
		}
		stays.updates(t, server, "test://one", "of the one that stays")
	})
}

// Where a config puts another server in the place of one, or the same with another secret, a client is told that the
// lists may be others, and hears of what it has subscribed to from the one that is there now.
func TestSubscriptionsOutliveAConfig(t *testing.T) {
	inEachRevision(t, func(t *testing.T, revision string) {
		server, address := newsroom(), harness.FreePort(t)
		o, _ := openMCPServer(t, server)
		text := fmt.Sprintf("http: %s\nbackends: {news: {mcp: {url: %q, allow_private: true, headers: {X-Key: KEY}}}}\n", address, o.url)
		c := newChanging(t, edit(t, text, "KEY", "the-first-of-two"))
		<-c.Ready()
		s, n := &shop{url: "http://" + address}, new(news)
		session := s.connect(t, revision, n.listening())
		if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "test://one"}); err != nil {
			t.Fatal(err)
		}
		n.updates(t, server, "test://one", "before")
		lists := n.of("prompts") + n.of("resources")
		c.take(edit(t, text, "KEY", "the-other-of-two"))
		harness.WaitFor(t, "the lists to be others", func() bool { return n.of("prompts")+n.of("resources") >= lists+2 })
		n.updates(t, server, "test://one", "after")
		if err := session.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: "test://one"}); err != nil {
			t.Error(err)
		}
	})
}
