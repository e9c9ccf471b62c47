package call_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/exectool"
	"github.com/sidecall/sidecall/internal/backend/httptool"
	"github.com/sidecall/sidecall/internal/backend/mcptool"
	"github.com/sidecall/sidecall/internal/backend/process"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
	"github.com/sidecall/sidecall/test/testkit/tenured"
)

// Whoever reads the code from the RPC to the store, or to the connection, has few
// functions to hold in mind, what they lead to among them.
const (
	mostToTheStore      = 7
	mostToTheConnection = 11
)

// way is the way of a call to where it stands.
type way struct {
	once   sync.Once
	frames []string
	err    error
}

// note takes down the way to here, the first time: or to the goroutine with words in
// its stack.
func (w *way) note(words ...string) {
	w.once.Do(func() { w.frames, w.err = calltest.Frames("ExecuteTool", words...) })
}

func (w *way) want(t *testing.T, to string, most int) {
	t.Helper()
	if w.err != nil {
		t.Fatal(w.err)
	}
	list := strings.Join(append(w.frames, to), "\n")
	if n := len(w.frames) + 1; n < 4 || n > most {
		t.Errorf("%d frames, at most %d:\n%s", n, most, list)
	}
	t.Log(list)
}

// deep is a store that notes how deep it stands.
type deep struct {
	dedupe.Store
	way
}

func (d *deep) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	d.note()
	return d.Store.Admit(ctx, req)
}

// deepTenured is one in the place of Redis: it says which process is the instance.
type deepTenured struct {
	*deep
	dedupe.Tenures
}

// callers are those who wait for as long as a call takes, and those who do not.
func callers(t *testing.T, run func(t *testing.T, ctx context.Context)) {
	t.Run("waits", func(t *testing.T) { run(t, t.Context()) })
	t.Run("has a deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // that of the call is later
		defer cancel()
		run(t, ctx)
	})
}

// unhurried gives a tool more time than any caller has.
func unhurried(r *catalog.Route) {
	r.Tool.Policy.Deadline, r.Tool.Policy.AttemptTimeout = 2*time.Hour, 2*time.Hour
}

func TestFewFramesFromTheRPCToTheStore(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, d *deep) dedupe.Store{
		"memory": func(_ *testing.T, d *deep) dedupe.Store {
			d.Store = embedded.InMemory(embedded.Options{})
			return d
		},
		"embedded": func(t *testing.T, d *deep) (store dedupe.Store) {
			store, err := embedded.Open(filepath.Join(t.TempDir(), "calls"), embedded.Options{})
			if err != nil {
				t.Fatal(err)
			}
			d.Store = store
			return d
		},
		"with tenures, as Redis": func(_ *testing.T, d *deep) dedupe.Store {
			store := tenured.New()
			d.Store = store
			return deepTenured{d, store}
		},
	} {
		t.Run(name, func(t *testing.T) {
			callers(t, func(t *testing.T, ctx context.Context) {
				d := &deep{}
				claims := dedupe.New(open(t, d), dedupe.Options{Instance: "a"})
				if err := claims.Alone(ctx); err != nil {
					t.Fatal(err)
				}
				s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("ok"), unhurried))
				s.With(func(p *call.Parts) { p.Dedupe = claims })
				if res, err := service(s).ExecuteTool(ctx, calltest.Request("toolu_1", "refund")); err != nil || res.GetIsError() {
					t.Fatal(res, err)
				}
				d.want(t, "the store", mostToTheStore)
				if err := claims.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestFewFramesFromTheRPCToTheConnection(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) backend.Backend{"HTTP": overHTTP, "MCP over HTTP": mcpOverHTTP} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			callers(t, func(t *testing.T, ctx context.Context) {
				var w way
				ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { w.note() }})
				s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b, unhurried))
				if res, err := service(s).ExecuteTool(ctx, calltest.Request("toolu_1", "refund")); err != nil || res.GetIsError() {
					t.Fatal(res, err)
				}
				w.want(t, "the connection", mostToTheConnection)
			})
		})
	}
}

// standing runs a call that comes no further than a place, which its stack then shows
// by words, notes its way to there, and lets it go on.
func standing(ctx context.Context, t *testing.T, b backend.Backend, req *sidecallv1.ExecuteToolRequest, goOn func(), words ...string) *way {
	t.Helper()
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b, unhurried))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = service(s).ExecuteTool(ctx, req) // it may have no result
	}()
	w := &way{}
	for {
		w.frames, w.err = calltest.Frames("ExecuteTool", words...)
		if w.err == nil {
			break
		}
		select {
		case <-ended:
			t.Errorf("it has gone on: %v", w.err)
			goOn()
			return w
		case <-time.After(time.Millisecond):
		}
	}
	goOn()
	<-ended
	return w
}

func TestFewFramesFromTheRPCToACommand(t *testing.T) {
	run := func(t *testing.T) {
		b, err := exectool.New(exectool.Config{Name: "shop", Env: []string{"PATH=/usr/bin:/bin"}, Tools: map[string]exectool.Command{
			"refund": {Argv: []string{"/bin/cat"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = b.Close(context.Background()) }()
		callers(t, func(t *testing.T, ctx context.Context) {
			syscall.ForkLock.Lock() // no process is born meanwhile
			w := standing(ctx, t, b, calltest.Request("toolu_1", "refund"), syscall.ForkLock.Unlock, "syscall.forkExec")
			w.want(t, "the process", mostToTheConnection)
		})
	}
	t.Run("nobody keeps house", run)
	if _, release, err := process.KeepHouse(); err == nil { // where that can be
		defer release()
		t.Run("somebody does, as in a sidecar", run)
	}
}

// deaf is an MCP server that introduces itself and then reads nothing more.
const deaf = `
answer() {
	while IFS= read -r line; do
		case $line in
		*'"id":'*)
			id=${line#*'"id":'}
			printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "${id%%[,\}]*}" "$1"
			return
			;;
		esac
	done
}
answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"deaf","version":"1"}}'
answer '{"tools":[{"name":"refund","inputSchema":{"type":"object"}}]}'
exec sleep 1000
`

func TestFewFramesFromTheRPCToAPipe(t *testing.T) {
	callers(t, func(t *testing.T, ctx context.Context) {
		b, end := discovered(t, mcptool.Config{Name: "shop", Command: []string{"/bin/sh", "-c", deaf}, Env: []string{"PATH=/usr/bin:/bin"}})
		req := calltest.Request("toolu_1", "refund")
		req.ArgumentsJson = `{"order_id":"` + strings.Repeat("A", 256<<10) + `"}` // more than a pipe holds
		w := standing(ctx, t, b, req, end, "os.(*File).Write", "mcptool")
		w.want(t, "the pipe", mostToTheConnection)
	})
}

func overHTTP(t *testing.T) backend.Backend {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) }))
	t.Cleanup(up.Close)
	shop, err := httptool.New(httptool.Config{Name: "shop", BaseURL: up.URL, AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shop.Close(context.Background()) })
	if err := shop.Register("refund", httptool.Spec{Method: http.MethodPost, Path: "/refunds"}); err != nil {
		t.Fatal(err)
	}
	return shop
}

func mcpOverHTTP(t *testing.T) backend.Backend {
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "refund"}, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "ok"}}}, nil, nil
	})
	up := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(up.Close)
	b, _ := discovered(t, mcptool.Config{Name: "shop", URL: up.URL, HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	return b
}

// discovered is an MCP backend whose tools are there; end closes it, as the end of the
// test does.
func discovered(t *testing.T, cfg mcptool.Config) (_ backend.Backend, end func()) {
	b, err := mcptool.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	found, ended := make(chan error, 100), make(chan struct{})
	go func() {
		defer close(ended)
		b.Run(ctx, func(_ []tool.Discovered, err error) { found <- err })
	}()
	end = sync.OnceFunc(func() {
		cancel()
		<-ended
		_ = b.Close(context.Background())
	})
	t.Cleanup(end)
	if err := <-found; err != nil {
		t.Fatal(err)
	}
	return b, end
}
