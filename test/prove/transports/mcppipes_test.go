//go:build prove

package transports

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// cutReader and cutWriter are the ends of a pipe. A chunk in which it fires goes through as far as a
// random byte, and then both are closed.
type (
	cutReader struct {
		io.ReadCloser
		fires func(chunk []byte) bool
		cut   func()
	}
	cutWriter struct {
		io.WriteCloser
		fires func(chunk []byte) bool
		cut   func()
	}
)

func (r cutReader) Read(into []byte) (int, error) {
	n, err := r.ReadCloser.Read(into)
	if n == 0 || !r.fires(into[:n]) {
		return n, err
	}
	r.cut()
	return rand.N(n), io.EOF
}

func (w cutWriter) Write(chunk []byte) (int, error) {
	if !w.fires(chunk) {
		return w.WriteCloser.Write(chunk)
	}
	n, _ := w.WriteCloser.Write(chunk[:rand.N(len(chunk))]) // the other end may be closed
	w.cut()
	return n, io.ErrClosedPipe
}

// piped is a lane on the stdin and stdout of a command, which a client starts anew when it is cut off.
func piped(env []string, command ...string) *lane {
	l := new(lane)
	var pipe atomic.Pointer[func()]
	l.cut = func() { (*pipe.Load())() }
	l.open = func(ctx context.Context, l *lane) (*mcp.ClientSession, error) {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Env = append(os.Environ(), env...)
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		end := func() { _, _ = in.Close(), out.Close() }
		pipe.Store(&end)
		context.AfterFunc(ctx, end)
		answered := func(chunk []byte) bool {
			return !l.fromServer && bytes.Contains(chunk, []byte("paid")) && l.fires(inTheAnswer, chunk)
		}
		asked := func(chunk []byte) bool { return !l.fromServer && l.fires(inTheRequest, chunk) }
		session, err := mcp.NewClient(&mcp.Implementation{Name: "prove", Version: "1"}, nil).Connect(ctx,
			&mcp.IOTransport{Reader: cutReader{out, answered, end}, Writer: cutWriter{in, asked, end}}, nil)
		go func() { _ = cmd.Wait() }() // however it ends
		return session, err
	}
	return l
}

// The pipes of sidecall mcp are cut in mid-call, and the calls sent again to another of its processes:
// each payment is taken once.
func TestMCPFrontPipesCut(t *testing.T) {
	t.Parallel()
	c := openTill()
	shop := httptest.NewServer(c)
	t.Cleanup(shop.Close)
	s := harness.Start(t, fmt.Sprintf(tillConfig, shop.URL))
	for range frontLanes {
		c.add(piped(nil, harness.Binary(t), "mcp", "--addr", "tcp://"+s.Addr))
	}
	c.isPaidOnce(t, "MCP front on stdio: pipes cut in mid-call, calls sent again", proof.Runs(60, 1_000))
}

// payerVariable makes the test binary an MCP server on stdin and stdout that takes payments at the URL of a
// lane of a till, and whose pipes are cut where that says so.
const payerVariable = "SIDECALL_PROVE_MCP_PAYER"

func runPayer(lane string) int {
	server := mcp.NewServer(&mcp.Implementation{Name: "payer", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "pay", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct {
			Key string `json:"key"`
		}
		if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
			return nil, err
		}
		code, said, err := asks(lane + "/" + args.Key)
		if code == http.StatusGone {
			os.Exit(1)
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said}}}, err
	})
	fires := func(at cutAt) func([]byte) bool {
		return func(chunk []byte) bool {
			key := keyIn.Find(chunk)
			if key == nil {
				return false
			}
			code, _, _ := asks(fmt.Sprintf("%s/%s/%d", lane, key, at)) // a till that is gone cuts nothing
			return code == http.StatusGone
		}
	}
	end := func() { os.Exit(1) }
	if err := server.Run(context.Background(), &mcp.IOTransport{
		Reader: cutReader{os.Stdin, fires(inTheRequest), end}, Writer: cutWriter{os.Stdout, fires(inTheAnswer), end},
	}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

var keyIn = regexp.MustCompile(`key-\d+-`)

func asks(url string) (code int, said string, err error) {
	res, err := http.Post(url, "", nil)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

// openWrappers is a till with lanes of wrappers, each before a server that takes payments. A lane has a state
// of its own: whoever ends a wrapper that serves others theirs cuts those off too.
func openWrappers(t *testing.T) *till {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, dir := openTill(), harness.ShortDir(t)
	shop := httptest.NewServer(c)
	t.Cleanup(shop.Close)
	for i := range frontLanes {
		c.add(piped([]string{payerVariable + "=" + fmt.Sprint(shop.URL, "/", i)},
			harness.Binary(t), "wrap", "--state", filepath.Join(dir, fmt.Sprint(i)), "--name", "payer", "--", self))
	}
	return c
}

// The pipe between a client and a wrapper is cut in mid-call, and the call sent again to another wrapper:
// each payment is taken once, and each call answered.
func TestWrapperPipesCut(t *testing.T) {
	t.Parallel()
	openWrappers(t).isPaidOnce(t, "MCP wrapper: client's pipe cut in mid-call, calls sent again", proof.Runs(60, 1_000))
}

// The pipe between a wrapper and its server is cut in mid-call: no payment is taken twice, and each call is
// answered, if only by that nobody knows.
func TestWrappedServersPipesCut(t *testing.T) {
	t.Parallel()
	c := openWrappers(t)
	for _, l := range c.lanes {
		l.fromServer = true
	}
	c.isPaidOnce(t, "MCP wrapper: server's pipe cut in mid-call, calls sent again", proof.Runs(60, 1_000))
}
