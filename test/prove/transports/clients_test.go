//go:build prove

package transports

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	sidecall "github.com/sidecall/sidecall/clients/go"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
	"github.com/sidecall/sidecall/test/testkit/wire"
)

// client makes one call of the tool act through a client library; the error is
// what its caller sees.
type client func(ctx context.Context, addr, id string) error

// clients are the three that Sidecall ships.
func clients(t *testing.T) map[string]client {
	t.Helper()
	dir := filepath.Join(harness.Root(), "clients")
	python, err := mcpservers.Python()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]client{
		"go": goClient,
		"python": script([]string{"PYTHONPATH=" + filepath.Join(dir, "python", "src")}, python, "-B", "-c", `
import sys, sidecall
client = sidecall.Sidecall("tcp://" + sys.argv[1])
client.execute_tool(sidecall.Call(sys.argv[2], "act", {"fault": "none", "key": sys.argv[2]}), conversation_id="c", rpc_timeout=60)
`),
		"node": script(nil, "node", "--input-type=module", "-e", `
import { Sidecall } from `+fmt.Sprintf("%q", "file://"+filepath.Join(dir, "node", "dist", "esm", "index.js"))+`
const [addr, id] = process.argv.slice(-2)
const client = new Sidecall('tcp://' + addr)
await client.executeTool({ toolUseId: id, toolName: 'act', argumentsJson: JSON.stringify({ fault: 'none', key: id }) }, { conversationId: 'c' }, { rpcTimeout: 60000 })
await client.close()
`),
	}
}

func goClient(ctx context.Context, addr, id string) error {
	c, err := sidecall.Dial("tcp://" + addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.ExecuteTool(ctx, sidecall.Call{ToolUseID: id, ToolName: act, ConversationID: "c", Arguments: fmt.Sprintf(`{"fault":"none","key":%q}`, id)})
	return err
}

// script is a client that a program in another language makes.
func script(env []string, command ...string) client {
	return func(ctx context.Context, addr, id string) error {
		cmd := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], addr, id)...)
		cmd.Env = append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
}

// The connection between a client and the sidecar breaks when the call has been
// carried out and its answer is on its way: no client sends it again by itself,
// and whoever does gets the answer of the first.
func TestClientsLoseTheAnswer(t *testing.T) {
	t.Parallel()
	s := newSite()
	a := &audit{t: t, site: s, Sidecar: harness.Start(t, config(s.plain(t), ""))}
	figure := ""
	for name, call := range clients(t) {
		for round := range proof.Runs(1, 10) {
			id := fmt.Sprintf("%s-%d", name, round)
			a.losesTheAnswer(id, call)
		}
		figure += " " + name
	}
	a.report("gRPC clients: connection lost with the answer", "one request each:"+figure)
}

// plain carries out every request.
func (s *site) plain(t *testing.T) string {
	return wire.HTTP1(t, func(x *wire.Exchange) bool {
		key := filepath.Base(x.URL.Path)
		s.arrives(key)
		s.executes(t, key, x.Header.Get("Idempotency-Key"), false)
		return x.ReadBody() && x.OK("done")
	})
}

func (a *audit) losesTheAnswer(id string, call client) {
	a.t.Helper()
	proxy := faultproxy.Start(a.t, a.Addr)
	var sent, lost atomic.Int64
	proxy.Hook(func(*faultproxy.Conn) faultproxy.Hook {
		asked := false
		return func(way faultproxy.Direction, chunk []byte) faultproxy.Action {
			switch {
			case way == faultproxy.ToTarget && bytes.Contains(chunk, []byte(id)):
				sent.Add(1)
				asked = true
			case way == faultproxy.ToClient && asked && a.site.requests(id) > 0 && bytes.Contains(chunk, []byte(id)) && lost.CompareAndSwap(0, 1):
				a.site.breaks(2)
				return faultproxy.Close(0)
			}
			return faultproxy.Pass
		}
	})
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*patience)
	defer cancel()
	err := call(ctx, proxy.Addr(), id)
	if err == nil || lost.Load() != 1 || sent.Load() != 1 {
		a.broken("%s: error %v, %d answers lost, sent %d times", id, err, lost.Load(), sent.Load())
	}
	if err := call(ctx, a.Addr, id); err != nil {
		a.broken("%s, sent again: %v", id, err)
	}
	if asked, ran := a.site.requests(id), a.site.ledger.Executions(id); asked != 1 || ran != 1 {
		a.broken("%s: %d requests at the tool, %d executions", id, asked, ran)
	}
}
