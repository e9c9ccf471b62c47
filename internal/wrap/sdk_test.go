package wrap_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sdkServer is a server of the official SDK, which speaks every revision.
func sdkServer() {
	if err := newSDKServer(enter).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		panic(err)
	}
}

func newSDKServer(enter func(what string)) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "greet"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Name string `json:"name"`
	}) (*mcp.CallToolResult, any, error) {
		enter("greet")
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Hi " + in.Name}}}, nil, nil
	})
	return s
}

// The official SDK's client and server speak through a wrapper in every revision that they know.
func TestEveryRevision(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			revision(t, start(t, "sdk", false), version, version)
		})
	}
}

// revision has a client of the official SDK ask for a revision, and get one, and call a tool through a
// wrapper.
func revision(t *testing.T, w *world, asked, version string) {
	t.Helper()
	heard, toClient := io.Pipe()
	go func() {
		for line := range w.heard {
			_, _ = io.WriteString(toClient, line+"\n")
		}
		_ = toClient.Close()
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: heard, Writer: w.in}, &mcp.ClientSessionOptions{ProtocolVersion: asked})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }() // the wrapper ends with it
	if got := session.InitializeResult().ProtocolVersion; got != version {
		t.Errorf("it speaks %s", got)
	}
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 2 {
		t.Errorf("%+v, %v", tools, err)
	}
	for _, arguments := range []string{`{"name":"you"}`, `{"name":"you"}`, `{"name":5}`} {
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{
			Meta: mcp.Meta{"dev.sidecall/toolUseId": "of " + arguments}, Name: "greet", Arguments: json.RawMessage(arguments),
		})
		if err != nil || len(res.Content) != 1 {
			t.Fatalf("%s: %+v, %v", arguments, res, err)
		}
		text := res.Content[0].(*mcp.TextContent).Text //nolint:forcetypeassert // else the test is wrong
		if res.IsError != strings.Contains(text, "INVALID_ARGS") || !res.IsError && text != "Hi you" {
			t.Errorf("%s: %+v", arguments, text)
		}
	}
	if n := w.entries("greet"); n != 1 {
		t.Errorf("it was made %d times", n)
	}
}
