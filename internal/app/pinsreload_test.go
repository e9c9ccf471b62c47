package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/test/testkit/harness"
)

// A config pins nothing before it is in force: what it has heard meanwhile is pinned when it takes over, and by one
// that is overtaken never.
func TestAConfigPinsWhatItHasHeardWhenItTakesOver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.pins")
	old, next, slow := newOffice(t, true, "read"), newOffice(t, true), newOffice(t, false, "write")
	mcp.AddTool(next.server, &mcp.Tool{Name: "read", Description: "Another description."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	})
	inForce := fmt.Sprintf("pins: {path: %q}\nbackends: {office: {pin: true, mcp: {url: %q, allow_private: true}}}\n", file, old.url)
	other := fmt.Sprintf("pins: {path: %q}\nbackends: {office: {mcp: {url: %q, allow_private: true}}, slow: {mcp: {url: %q, allow_private: true}}}\n", file, next.url, slow.url)
	c := newChanging(t, inForce)
	harness.WaitFor(t, "its tools", func() bool { return len(c.tools()) == 2 })
	pins := func() string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := pins()
	waits := make(chan string, 10)
	take := func() (overtake context.CancelFunc, ended <-chan error) {
		ctx, overtake := context.WithCancel(t.Context())
		end, cfg := make(chan error, 1), c.config(other)
		go func() { end <- c.succession.take(ctx, cfg, func(why string) { waits <- why }) }()
		return overtake, end
	}
	overtake, ended := take()
	for why := ""; !strings.Contains(why, "slow"); { // then it has the tools of the other
		why = <-waits
	}
	if now := pins(); now != before {
		t.Errorf("a config that waits has pinned\n%s", now)
	}
	overtake()
	if err := <-ended; err == nil {
		t.Fatal("it was not overtaken")
	}
	old.add("move")
	harness.WaitFor(t, "its new tool", func() bool { return slices.Contains(c.tools(), "move") })
	if res := c.call("3", "read"); res.GetIsError() {
		t.Errorf("a tool that is as it was pinned: %v", res.GetError())
	}
	_, ended = take()
	slow.open()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if now := pins(); now == before || !strings.Contains(now, "slow write ") {
		t.Errorf("when it has taken over there are\n%s", now)
	}
}
