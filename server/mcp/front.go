// Package mcp is the front for clients of MCP: streamable HTTP and stdio, in the revisions
// with sessions and in the stateless one. It is a client of ToolService and nothing more, so
// that a call gets over MCP what it gets over gRPC.
//
// Which call a request is says identity. A client that goes away ends no effect: the call
// settles, and the request that is sent again gets what came of it.
package mcp

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/identity"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// maxSessions bounds the sessions that are open, of clients of the revisions that have some.
	maxSessions = 1000
	// sessionIdle is how long one is kept of which nothing is heard.
	sessionIdle = 30 * time.Minute
)

// Front serves the tools of a sidecar.
type Front struct {
	options Options
	// With sessions, and the revision that has none.
	stateful, stateless http.Handler

	// life ends, by end, what follows the sidecar; running is all that the front does by itself.
	life    context.Context //nolint:containedctx // the front's, not a request's
	end     context.CancelFunc
	running sync.WaitGroup
	asking  *asking

	mu    sync.Mutex
	faces map[string]*face             // by profile
	every map[*face]context.CancelFunc // ends each; those too that have retired, whose sessions go on
	// opening is how many requests may be opening a session.
	opening int
}

// New returns a front that serves nobody yet. Whoever has one closes it.
func New(options Options) *Front {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	f := &Front{options: options, faces: map[string]*face{}, every: map[*face]context.CancelFunc{}}
	f.life, f.end = context.WithCancel(context.Background())
	f.asking = &asking{life: f.life}
	of := func(req *http.Request) *sdk.Server {
		if face, err := f.face(req.Context(), req.PathValue("profile")); err == nil {
			return face.server
		}
		return nil
	}
	opts := sdk.StreamableHTTPOptions{
		// Who listens has looked at the host already.
		DisableLocalhostProtection: true,
		MaxRequestBodyBytes:        options.MaxRequestBytes,
		SessionTimeout:             sessionIdle,
		EventStore:                 newEvents(),
		Logger:                     options.Log,
	}
	f.stateful = sdk.NewStreamableHTTPHandler(of, &opts)
	opts.Stateless, opts.EventStore = true, nil
	f.stateless = sdk.NewStreamableHTTPHandler(of, &opts)
	return f
}

// Handler serves /mcp, with the tools of the default profile, and /mcp/PROFILE. Who serves it
// looks at the host of requests. A page of another origin is refused.
func (f *Front) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", f.Bounded(http.HandlerFunc(f.serve), http.Error))
	mux.Handle("/mcp/{profile}", f.Bounded(http.HandlerFunc(f.serve), http.Error))
	return http.NewCrossOriginProtection().Handler(mux)
}

func (f *Front) serve(w http.ResponseWriter, req *http.Request) {
	if _, err := f.face(req.Context(), req.PathValue("profile")); err != nil {
		http.Error(w, status.Convert(err).Message(), httpStatus(err))
		return
	}
	if req.Method == http.MethodGet || req.Header.Get("Mcp-Method") == "subscriptions/listen" {
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		defer context.AfterFunc(f.life, cancel)()
		req = req.WithContext(ctx)
	}
	if req.Header.Get("Mcp-Protocol-Version") >= stateless20260728 {
		if misnamed(w, req) {
			return
		}
		nameEmpty(req.Header)
		f.stateless.ServeHTTP(w, req)
		return
	}
	if req.Method == http.MethodDelete {
		f.asking.end(req.Header.Get("Mcp-Session-Id"))
	}
	if req.Header.Get("Mcp-Session-Id") == "" {
		done, ok := f.open()
		if !ok {
			w.Header().Set("Retry-After", "10")
			http.Error(w, fmt.Sprintf("there are %d sessions open already: close some (DELETE), or wait until they are idle for %s", maxSessions, sessionIdle), http.StatusServiceUnavailable)
			return
		}
		defer done()
	}
	f.stateful.ServeHTTP(w, req)
	session := cmp.Or(req.Header.Get("Mcp-Session-Id"), w.Header().Get("Mcp-Session-Id"))
	if session != "" && req.Method == http.MethodPost && req.ContentLength > smallWrite {
		f.displace(req, session)
	}
}

// displace says something short in the session of a long message: the library keeps the last one until the
// next, and nothing counts that.
func (f *Front) displace(req *http.Request, session string) {
	short := req.Clone(context.WithoutCancel(req.Context())) // of a client that has left, too
	short.Header.Set("Mcp-Session-Id", session)
	short.Body = io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`))
	said := make(chan struct{})
	go func() { // ends with the session
		defer close(said)
		f.stateful.ServeHTTP(nowhere{}, short)
	}()
	select {
	case <-said:
	case <-time.After(WriteTime): // the session writes to a client that does not read, and hears nothing meanwhile
	}
}

// nowhere is the answer to who does not listen.
type nowhere http.Header

func (n nowhere) Header() http.Header          { return http.Header(n) }
func (nowhere) Write(data []byte) (int, error) { return len(data), nil }
func (nowhere) WriteHeader(int)                {}

// nameEmpty writes the headers of arguments that are empty texts in their other form: the library
// takes one that is there and empty for one that is missing.
func nameEmpty(header http.Header) {
	for name, values := range header {
		if strings.HasPrefix(name, "Mcp-Param-") && len(values) == 1 && values[0] == "" {
			header[name] = []string{"=?base64??="}
		}
	}
}

// Run serves one client on a transport, with the tools of a profile, until it leaves or ctx
// ends, which is as if it left: the library would wait for calls that run, and for what the client is
// asked, and would answer none of them.
func (f *Front) Run(ctx context.Context, transport sdk.Transport, profile string) error {
	face, err := f.face(ctx, profile)
	if err != nil {
		return err
	}
	return face.server.Run(context.WithoutCancel(ctx), connects(func(connecting context.Context) (sdk.Connection, error) {
		conn, err := transport.Connect(connecting)
		if err != nil {
			return nil, err
		}
		bounded := newBounding(conn)
		context.AfterFunc(ctx, func() { _ = bounded.Close() }) // nobody is heard any more
		return bounded, nil
	}))
}

// Leave ends what only listens, or waits for a person, which would hold up who waits for requests to end.
func (f *Front) Leave() { f.end() }

// Close ends all sessions, and what the front does by itself.
func (f *Front) Close() {
	f.Leave()
	for _, face := range f.all() {
		for session := range face.server.Sessions() {
			if err := session.Close(); err != nil {
				f.options.Log.Debug("mcp: a session that does not close", "error", err)
			}
		}
		face.tasks.cancel(func(identity.Call) bool { return true })
	}
	f.running.Wait()
}

func (f *Front) all() []*face {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.every))
}

// open counts in a request that may open a session, until done; false when there are enough.
func (f *Front) open() (done func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sessions := f.opening
	for face := range f.every {
		sessions += face.sessions()
	}
	if sessions >= maxSessions {
		return nil, false
	}
	f.opening++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.opening--
	}, true
}

// face is that of a profile; an error when there is none of that name, or nobody can say.
func (f *Front) face(ctx context.Context, profile string) (*face, error) {
	f.mu.Lock()
	made := f.faces[profile]
	f.mu.Unlock()
	if made != nil {
		return made, nil
	}
	made, err := newFace(ctx, &f.options, profile, &f.running)
	if err != nil {
		return nil, err
	}
	made.asking = f.asking
	made.server.AddSendingMiddleware(f.asking.bounded)
	f.mu.Lock()
	defer f.mu.Unlock()
	if other := f.faces[profile]; other != nil {
		return other, nil
	}
	if f.life.Err() != nil {
		return nil, status.Error(codes.Unavailable, "the front is closed")
	}
	life, end := context.WithCancel(f.life)
	f.faces[profile], f.every[made] = made, end
	f.running.Go(func() { made.follow(life, func() { f.retire(made) }) })
	return made, nil
}

// retire has who comes from now on get another face, and ends those that have retired before and have
// nobody left: who has just been given one may still begin with it.
func (f *Front) retire(old *face) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.faces[old.profile] == old {
		delete(f.faces, old.profile)
	}
	for face, end := range f.every {
		if face != old && f.faces[face.profile] != face && face.idle() {
			end()
			delete(f.every, face)
		}
	}
}

// newFace returns the face of a profile, which there must be.
func newFace(ctx context.Context, options *Options, profile string, leaving *sync.WaitGroup) (*face, error) {
	taught, err := options.Tools.GetInstructions(ctx, &sidecallv1.GetInstructionsRequest{Profile: profile})
	if err != nil {
		return nil, err
	}
	behind := servers{options, profile}
	there, err := behind.there(ctx)
	if err != nil {
		return nil, err
	}
	f := &face{
		servers: behind, hasServers: there, leaving: leaving, listed: map[string]*sidecallv1.Tool{},
		subscriptions: subscriptions{servers: behind, leaving: leaving, of: map[*sdk.ServerSession]map[string]string{}, begun: make(chan struct{})},
	}
	f.handler = f.call
	serves := &sdk.ServerOptions{
		Instructions: taught.GetText(),
		Logger:       options.Log,
		Capabilities: capabilities(there),
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = private },
	}
	if there {
		serves.SubscribeHandler, serves.UnsubscribeHandler = f.subscriptions.subscribe, f.subscriptions.unsubscribe
	}
	f.server = sdk.NewServer(&sdk.Implementation{Name: "sidecall", Title: "Sidecall", Version: options.Version}, serves)
	f.server.AddReceivingMiddleware(f.receive)
	if err := f.servesTasks(); err != nil {
		return nil, err
	}
	return f, f.look(ctx)
}

// receive sees to it that a client sees the tools that there are, and answers for those that
// there are not.
func (f *face) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (_ sdk.Result, err error) {
		defer f.options.recovered(method, &err)
		ctx, over := f.asking.begun(ctx, req.GetSession())
		defer over()
		if tooLong(method, req) {
			return nil, errLasting
		}
		if result := forwarded[method]; result != nil && f.hasServers {
			return f.forward(ctx, method, req, result())
		}
		if method == "initialize" && f.hasServers {
			defer func() { f.options.heard(logAt(ctx, next, req.GetSession())) }()
		}
		switch params := req.GetParams().(type) {
		case *sdk.InitializeParams:
			params.ProtocolVersion = begun(params.ProtocolVersion)
		case *sdk.ListToolsParams:
			if err := f.look(ctx); err != nil {
				return nil, rpcError(err)
			}
		case *sdk.CallToolParamsRaw:
			if !f.has(params.Name) {
				if err := f.look(ctx); err != nil {
					return nil, rpcError(err)
				}
			}
			if !f.has(params.Name) {
				return f.call(ctx, req.(*sdk.CallToolRequest))
			}
		}
		result, err := next(ctx, method, req)
		if err != nil {
			return result, err
		}
		return unwrapped(result), nil
	}
}

// begun is the revision of a session that a client begins with one. The one that has no sessions is not
// begun so: whoever offers it gets the latest that has, and speaks what it has agreed to.
func begun(offered string) string {
	if offered >= stateless20260728 {
		return sessions20251125
	}
	return offered
}

// logAt has a session told of log messages before its client says which it wants.
func logAt(ctx context.Context, next sdk.MethodHandler, session sdk.Session) error {
	own, ok := session.(*sdk.ServerSession)
	if !ok {
		return nil
	}
	_, err := next(ctx, "logging/setLevel", &sdk.ServerRequest[*sdk.SetLoggingLevelParams]{Session: own, Params: &sdk.SetLoggingLevelParams{Level: "info"}}) //nolint:staticcheck // likewise
	return err
}
