package app

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/server"
)

// refusedStreams is the room that a connection has for calls that are being
// refused. Without it a client would hold back what is too much, silently, until
// its deadline.
const refusedStreams = 1024

// fronts are what answers requests: gRPC for agents, gRPC for operators, MCP, and
// the admin pages.
type fronts struct {
	// agents has the server of each listener that offers profiles of its own, by
	// their names, and that of all the others.
	agents    map[string]*grpc.Server
	operators *grpc.Server
	health    *health.Server
	admin     *http.Server
	mcp       *mcpFront // nil when it is off
	pages     *server.Admin

	// serving ends with the listeners.
	serving sync.WaitGroup
	// failed receives why a listener ended that was not asked to.
	failed chan error
}

// newFronts puts the fronts before the parts. They do not listen yet. operator
// says where the surface of operators is, or why it is off.
func newFronts(p *parts, operator, version string) *fronts {
	bounds := p.config.Limits
	f := &fronts{failed: make(chan error, 8)}
	offers := map[string][]string{}
	for _, l := range p.config.Listen {
		offers[offerOf(l.Profiles)] = l.Profiles
	}
	if p.config.HTTP.Reveal() != "" {
		offers[offerOf(p.config.HTTP.Profiles)] = p.config.HTTP.Profiles
	}
	servers := server.NewGRPC(pipeline(p), p.drain, p.telemetry.Logger, server.GRPCOptions{
		Servers: len(offers), MaxRequestBytes: int(bounds.MaxRequestBytes), Bytes: p.bytes, MaxStreams: uint32(bounds.MaxInFlight + bounds.MaxWaiting + refusedStreams),
		Operator: operator, Book: p.book, Metrics: p.telemetry.Gatherer, Workers: reception{&p.generation},
	})
	f.agents, f.operators, f.health = make(map[string]*grpc.Server), servers.Operators(), servers.Health
	for offer, profiles := range offers {
		f.agents[offer] = servers.Agents(profiles...)
	}
	f.pages = &server.Admin{Metrics: p.telemetry.Metrics, Dedupe: p.dedupe, Catalog: p.catalog, Drain: p.drain, Mask: p.config.Mask}
	hosts := append([]string{p.config.Admin.Reveal()}, p.config.AdminHosts...)
	f.admin = &http.Server{Handler: server.OnlyHosts(f.pages.Handler(), "admin_hosts", hosts...), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	f.mcp = newMCPFront(p, version, p.bytes.Part(len(offers)+1))
	return f
}

// offerOf names what a listener offers.
func offerOf(profiles []string) string { return strings.Join(profiles, " ") }

// serve serves on what was opened.
func (f *fronts) serve(on *listeners) {
	for _, listener := range on.agents {
		f.serving.Go(func() { f.ended(f.agents[offerOf(listener.profiles)].Serve(listener.Listener)) })
	}
	if on.operators != nil {
		f.serving.Go(func() { f.ended(f.operators.Serve(on.operators)) })
	}
	if f.mcp != nil {
		f.serving.Go(func() { f.ended(f.agents[offerOf(f.mcp.profiles)].Serve(f.mcp.inside)) })
		f.serving.Go(func() { f.ended(f.mcp.server.Serve(on.http)) })
	}
	if on.admin != nil {
		f.serving.Go(func() { f.ended(f.admin.Serve(on.admin)) })
	}
}

// ready says to who asks for the health that every tool is there that is waited
// for.
func (f *fronts) ready() {
	f.health.SetServingStatus(sidecallv1.ToolService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
}

// ended passes on why a listener ended, unless it was asked to.
func (f *fronts) ended(err error) {
	if err == nil || errors.Is(err, grpc.ErrServerStopped) || errors.Is(err, http.ErrServerClosed) {
		return
	}
	select {
	case f.failed <- err:
	default: // the first failures are enough to stop for
	}
}

// lastAnswers is how long the answers of calls that have ended have to get out.
// Streams without an end (a watch of the health) take no longer.
const lastAnswers = 2 * time.Second

// stop lets the last answers out, also those of calls that were just broken
// off, then closes the connections.
func (f *fronts) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), lastAnswers)
	defer cancel()
	err := f.mcp.stop(ctx)
	var stopping sync.WaitGroup
	stopping.Go(func() { stopGRPC(ctx, f.operators) })
	for _, server := range f.agents {
		stopping.Go(func() { stopGRPC(ctx, server) })
	}
	stopping.Wait()
	return err
}

func stopGRPC(ctx context.Context, server *grpc.Server) {
	stopped := make(chan struct{})
	go func() {
		server.GracefulStop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
		server.Stop()
		<-stopped
	}
}
