package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sidecall/sidecall/internal/limit"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/server"
	"github.com/sidecall/sidecall/server/mcp"
	"github.com/sidecall/sidecall/server/rest"
)

// mcpFront serves clients of MCP, and of JSON. It is a client of a server of agents, by a connection within
// the process: a call goes the way, and has the bounds, that one has which comes over gRPC.
type mcpFront struct {
	front  *mcp.Front
	server *http.Server
	inside *bufconn.Listener
	conn   *grpc.ClientConn
	// profiles are those that it offers; nil is all.
	profiles []string
}

// newMCPFront returns one that serves nobody yet; nil where it is off.
func newMCPFront(p *parts, version string, bytes *limit.Bytes) *mcpFront {
	cfg := p.config.HTTP
	if cfg.Reveal() == "" {
		return nil
	}
	f := &mcpFront{inside: bufconn.Listen(insideBuffer), profiles: cfg.Profiles}
	conn, err := grpc.NewClient("passthrough:///inside", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return f.inside.DialContext(ctx) }),
		grpc.WithDisableRetry(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxInside)))
	if err != nil {
		panic(err) // of options that are not the config's
	}
	f.conn = conn
	tools := sidecallv1.NewToolServiceClient(conn)
	f.front = mcp.New(mcp.Options{
		Tools: tools, Servers: sidecallv1.NewMcpServiceClient(conn), Version: version, Log: p.telemetry.Logger,
		MaxRequestBytes: int64(p.config.Limits.MaxRequestBytes), Bytes: bytes,
	})
	clients, calls := f.front.Handler(), f.front.Bounded(rest.Handler(tools), rest.Error)
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(path.Clean(r.URL.Path)+"/", "/v1/") {
			calls.ServeHTTP(w, r)
		} else {
			clients.ServeHTTP(w, r)
		}
	})
	hosts := append([]string{cfg.Reveal()}, cfg.Hosts...)
	f.server = &http.Server{
		Handler:           server.OnlyHosts(pages, "http.hosts", hosts...),
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, WriteTimeout: mcp.WriteTime, MaxHeaderBytes: maxHeaderBytes,
	}
	return f
}

// maxHeaderBytes bounds what stands before the body of a request.
const maxHeaderBytes = 16 << 10

const (
	// maxInside bounds a response within the process, which is bounded by itself.
	maxInside = 1 << 30
	// insideBuffer is what a direction of the connection holds: as much as gRPC writes at once.
	insideBuffer = 32 << 10
)

// stop ends it. What is under way has until ctx ends.
func (f *mcpFront) stop(ctx context.Context) error {
	if f == nil {
		return nil
	}
	f.front.Leave()
	err := f.server.Shutdown(ctx)
	f.front.Close()
	if err != nil {
		err = f.server.Close()
	}
	return errors.Join(err, f.conn.Close())
}
