//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

// till is what takes payments behind an MCP front, and the config of a sidecar before it.
type till struct {
	paid   atomic.Int64
	url    string
	config string
	// hold, when it is set, holds a payment after it was taken.
	hold atomic.Pointer[chan struct{}]
}

// ServeHTTP takes a payment.
func (open *till) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	n := open.paid.Add(1)
	if hold := open.hold.Load(); hold != nil {
		<-*hold
	}
	_, _ = fmt.Fprintf(w, `{"payment":%d}`, n)
}

func openTill(t *testing.T) *till {
	t.Helper()
	open := &till{}
	web := httptest.NewServer(open)
	t.Cleanup(web.Close)
	open.url = web.URL
	open.config = fmt.Sprintf(`
backends: {shop: {http: {base_url: %q, allow_private: true}}}
tools:
  pay:
    backend: shop
    description: Takes a payment.
    http: {method: POST, path: /pay}
    input_schema: {type: object, properties: {cents: {type: integer}}, required: [cents]}
    approve_when: "args.cents > 100"
`, open.url)
	return open
}

// whatAClientSaw is what the official clients print.
type whatAClientSaw struct {
	Revision                 string
	Tools, Asked             []string
	Paid, Again, Wrong, Held struct {
		Text       string
		IsError    bool `json:"is_error"`
		Structured map[string]any
		Replayed   bool
	}
	Unknown struct {
		Code int
		Data map[string]string
	}
}

// The official clients of two languages, in both eras, over HTTP and on stdio: each is told
// what a call is told over gRPC, and what it sends twice has one effect.
func TestTheOfficialMCPClients(t *testing.T) {
	t.Parallel()
	python, err := mcpservers.Python()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(harness.Root(), "test", "e2e")
	clients := map[string][]string{
		"python, stateless":     {python, "-B", filepath.Join(root, "python", "mcpclient.py"), "2026-07-28"},
		"python, with sessions": {python, "-B", filepath.Join(root, "python", "mcpclient.py"), "legacy"},
		"node":                  {"node", filepath.Join(root, "node", "mcpclient.mjs")},
		"node 2, stateless":     {"node", filepath.Join(root, "conformance", "mcpclient.mjs"), "2026-07-28"},
		"node 2, with sessions": {"node", filepath.Join(root, "conformance", "mcpclient.mjs"), "legacy"},
	}
	for name, client := range clients {
		t.Run(name+", over HTTP", func(t *testing.T) {
			t.Parallel()
			open, address := openTill(t), harness.FreePort(t)
			harness.Start(t, open.config+"http: "+address+"\nstore: {memory: {}}\n")
			open.isPaidAt(t, slices.Concat(client, []string{"http://" + address + "/mcp"}))
		})
		t.Run(name+", on stdio", func(t *testing.T) {
			t.Parallel()
			open := openTill(t)
			open.isPaidAt(t, slices.Concat(client, open.onStdio(t)))
		})
	}
}

// onStdio is the command line of a server on stdio, with a store of its own.
func (open *till) onStdio(t *testing.T) []string {
	t.Helper()
	config := filepath.Join(harness.ShortDir(t), "sidecall.yaml")
	if err := os.WriteFile(config, []byte(open.config), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{harness.Binary(t), "mcp", "--config", config}
}

func (open *till) isPaidAt(t *testing.T, client []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), client[0], client[1:]...)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, log.String())
	}
	var saw whatAClientSaw
	if err := json.Unmarshal(out, &saw); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const stateless = "2026-07-28"
	if slices.Contains(client, stateless) != (saw.Revision == stateless) {
		t.Errorf("the revision is %q", saw.Revision)
	}
	if !slices.Equal(saw.Tools, []string{"pay", "read_output"}) {
		t.Errorf("the tools are %q", saw.Tools)
	}
	if saw.Paid.Text != `{"payment":1}` || saw.Paid.IsError || saw.Paid.Replayed || saw.Again.Text != saw.Paid.Text || !saw.Again.Replayed {
		t.Errorf("paid: %+v, and again: %+v", saw.Paid, saw.Again)
	}
	if !saw.Wrong.IsError || saw.Wrong.Structured["code"] != "INVALID_ARGS" || saw.Wrong.Structured["field"] != "cents" {
		t.Errorf("wrong arguments: %+v", saw.Wrong)
	}
	if !saw.Held.IsError || saw.Held.Structured["code"] != "APPROVAL_REQUIRED" || len(saw.Asked) != 1 || !strings.Contains(saw.Asked[0], "args.cents > 100") {
		t.Errorf("held: %+v, and asked %q", saw.Held, saw.Asked)
	}
	if saw.Unknown.Code != -32602 || saw.Unknown.Data["code"] != "UNKNOWN_TOOL" || len(saw.Unknown.Data) != 5 {
		t.Errorf("an unknown tool: %+v", saw.Unknown)
	}
	if n := open.paid.Load(); n != 1 {
		t.Errorf("%d payments", n)
	}
}

// A front on stdio is killed in the middle of a call, and the sidecar behind it is not: the
// client starts another, and is told what came of it.
func TestAFrontThatIsKilledInACall(t *testing.T) {
	t.Parallel()
	open := openTill(t)
	command := open.onStdio(t)
	for i := range 5 {
		hold := make(chan struct{})
		open.hold.Store(&hold)
		id := fmt.Sprint("t-", i)
		first, session := stdioClient(t, command)
		ended := make(chan error, 1)
		go func() {
			_, err := session.CallTool(context.WithoutCancel(t.Context()), paymentOverMCP(id))
			ended <- err
		}()
		harness.WaitFor(t, "the payment", func() bool { return open.paid.Load() == int64(i+1) })
		if err := first.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil {
			t.Error("a call was answered by a front that was killed")
		}
		close(hold)
		_, session = stdioClient(t, command)
		res, err := session.CallTool(t.Context(), paymentOverMCP(id))
		if err != nil || res.IsError || res.Content[0].(*mcp.TextContent).Text != fmt.Sprintf(`{"payment":%d}`, i+1) {
			t.Fatalf("sent again: %v, %v", res, err)
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := open.paid.Load(); n != 5 {
		t.Errorf("%d payments of 5 calls", n)
	}
}

func paymentOverMCP(id string) *mcp.CallToolParams {
	return &mcp.CallToolParams{
		Name: "pay", Arguments: map[string]any{"cents": 5},
		Meta: mcp.Meta{"dev.sidecall/toolUseId": id, "dev.sidecall/conversationId": "c-1"},
	}
}

func stdioClient(t *testing.T, command []string) (*exec.Cmd, *mcp.ClientSession) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Stderr = io.Discard
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, session
}
