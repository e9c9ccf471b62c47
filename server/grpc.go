package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/output"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// GRPCOptions are the bounds of the gRPC servers.
type GRPCOptions struct {
	// MaxRequestBytes bounds one request; a larger one is RESOURCE_EXHAUSTED.
	MaxRequestBytes int
	// Bytes is what the requests take room of; nil is without a bound.
	Bytes *limit.Bytes
	// Servers is how many servers of agents there are, each with its share of Bytes. The
	// operators' has as much as one of them.
	Servers int
	// MaxStreams bounds the requests in flight on one connection.
	MaxStreams uint32
	// Operator says where OperatorService is, for those who ask for it where it is
	// not: its address, or why it is off.
	Operator string
	// Book keeps the messages of conversations.
	Book *conversation.Book
	// Metrics are those of the sidecar, which operators are told of; nil has none.
	Metrics prometheus.Gatherer
	// Workers takes those in who serve tools themselves; nil where nobody ever does.
	Workers Workers
}

// streamWorkers is how many calls find a goroutine with a grown stack.
const streamWorkers = 64

// GRPC makes the gRPC servers of a sidecar, one per surface. They have the
// pipeline, the drain and the health in common, and no method that is not for
// whom they serve.
type GRPC struct {
	// Health says SERVING of the process until its Shutdown, and of ToolService from
	// when it is told that the sidecar is ready.
	Health *health.Server

	executor *call.Executor
	drain    *Drain
	logger   *slog.Logger
	options  GRPCOptions
	readers  chan struct{}
}

// NewGRPC returns what makes the gRPC servers of a sidecar.
func NewGRPC(executor *call.Executor, drain *Drain, logger *slog.Logger, options GRPCOptions) *GRPC {
	g := &GRPC{
		Health: health.NewServer(), executor: executor, drain: drain, logger: logger, options: options,
		readers: make(chan struct{}, output.MaxReaders),
	}
	g.Health.SetServingStatus(sidecallv1.ToolService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_NOT_SERVING)
	return g
}

// Agents returns a server of agents: ToolService, ConversationService, WorkerService
// where there are Workers, grpc.health.v1 and server reflection. offered are the profiles that they may name,
// as in Service; who offers some is a tenant.
func (g *GRPC) Agents(offered ...string) *grpc.Server { return g.agents(g.intake(), offered) }

func (g *GRPC) agents(in *intake, offered []string) *grpc.Server {
	server := g.server(in, ofTenant(tenantOf(offered)), grpc.UnknownServiceHandler(g.elsewhere))
	g.forAgents(server, in, offered)
	g.forWorkers(server, in, offered)
	return described(server, in, g.Health)
}

// forAgents registers what agents have, and operators too.
func (g *GRPC) forAgents(server *grpc.Server, in *intake, offered []string) {
	asked := newAsked()
	server.RegisterService(in.methods(&sidecallv1.ToolService_ServiceDesc), &Service{Executor: g.executor, Offered: offered, bytes: in.bytes, mostArguments: in.most, readers: g.readers, loads: in.loads, asked: asked})
	server.RegisterService(in.methods(&sidecallv1.ConversationService_ServiceDesc), &Conversations{Executor: g.executor, Book: g.options.Book, Offered: offered})
	server.RegisterService(in.methods(&sidecallv1.McpService_ServiceDesc), &MCP{Executor: g.executor, Offered: offered, bytes: in.bytes, unread: in.unread, asked: asked, following: in.following, followers: newFollowers(in.subscribed)})
}

// Operators returns the server of those who look after the sidecar:
// OperatorService, and what agents have, of the tenant that they name. It names each by
// its user, so it is to serve a unix socket.
func (g *GRPC) Operators() *grpc.Server {
	in := g.intake()
	server := g.server(in, ofTenantNamed, grpc.Creds(peerCredentials{insecure.NewCredentials()}))
	g.forAgents(server, in, nil)
	server.RegisterService(in.methods(&sidecallv1.OperatorService_ServiceDesc), &Operator{Executor: g.executor, Metrics: g.options.Metrics, loads: in.loads})
	return described(server, in, g.Health)
}

// intake returns that of a server.
func (g *GRPC) intake() *intake {
	in := newIntake(g.options.Bytes, g.options.Servers, g.options.MaxRequestBytes)
	in.maxBatch = func() int { return g.executor.Catalog.Snapshot().Limits.MaxBatch }
	return in
}

// described registers what every server says of itself.
func described(server *grpc.Server, in *intake, answers healthpb.HealthServer) *grpc.Server {
	of := questions{server, in.small(), make(chan struct{}, maxWatching)}
	healthpb.RegisterHealthServer(of, answers)
	reflection.Register(of)
	return server
}

// server returns a server without services. tenant says whose a request is.
func (g *GRPC) server(in *intake, tenant grpc.UnaryServerInterceptor, more ...grpc.ServerOption) *grpc.Server {
	options := g.options
	chain := []grpc.UnaryServerInterceptor{tenant, readable, g.drain.intercept, in.fewLoads, withTraceContext, recovered(g.logger)}
	return grpc.NewServer(append(append(watchSent(), more...),
		grpc.ForceServerCodecV2(in.codec),
		grpc.ChainUnaryInterceptor(chain...),
		grpc.ChainStreamInterceptor(streamed(in, chain)),
		grpc.MaxRecvMsgSize(options.MaxRequestBytes+max(options.MaxRequestBytes/4, wellBeyond)),
		grpc.MaxConcurrentStreams(options.MaxStreams),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.InTapHandle(in.arriving.begin),
		// gRPC would let a client on a fast link send megabytes on every stream
		// before anybody wants them.
		grpc.StaticStreamWindowSize(smallRequest),
		grpc.StaticConnWindowSize(connWindow),
		// Workers keep the stacks that a call has grown; calls beyond them get
		// goroutines of their own.
		grpc.NumStreamWorkers(streamWorkers),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)...)
}

// elsewhere answers a request for a service that agents do not have. One who asks
// for the operator's is told where it is: an agent gains nothing by that, since
// the system lets no one else open the socket, and a person does.
func (g *GRPC) elsewhere(_ any, stream grpc.ServerStream) error {
	arrivalOf(stream.Context()).end()
	method, _ := grpc.MethodFromServerStream(stream)
	if strings.HasPrefix(method, "/"+sidecallv1.OperatorService_ServiceDesc.ServiceName+"/") {
		return status.Errorf(codes.PermissionDenied,
			"OperatorService is not served to agents: it has a socket of its own, the setting operator (%s)", g.options.Operator)
	}
	if strings.HasPrefix(method, "/"+sidecallv1.WorkerService_ServiceDesc.ServiceName+"/") {
		return ErrNoWorkers
	}
	return status.Errorf(codes.Unimplemented, "there is no method %s here", method)
}

// maxHeaders bounds the metadata of a request, in bytes. gRPC would take 16 MiB for
// each stream, which nobody counts.
const maxHeaders = 16 << 10

// connWindow is how much all the streams of a connection may have on the way, in
// bytes.
const connWindow = 1 << 20

// readable refuses questions with a text that is not UTF-8, with its field. A call with
// one gets its result.
func readable(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	switch req := req.(type) {
	case *sidecallv1.ExecuteToolRequest, *sidecallv1.ExecuteToolsRequest:
	case proto.Message:
		if field := notUTF8Field(req.ProtoReflect()); field != nil {
			return nil, status.Errorf(codes.InvalidArgument, "%s: %s", field.Name(), explain.NotText(req.ProtoReflect().Get(field).String()))
		}
	}
	return next(ctx, req)
}

// recovered keeps a bug in one request from ending the process. Calls have a
// net of their own, nearer to the claim; this one is for everything else.
func recovered(logger *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (res any, err error) {
		defer caught(ctx, logger, info.FullMethod, &err)
		return next(ctx, req)
	}
}

// caught is deferred: the error of a request that panics is a status.
func caught(ctx context.Context, logger *slog.Logger, method string, err *error) {
	if p := recover(); p != nil {
		id := "err_" + rand.Text()[:12]
		logger.ErrorContext(ctx, "panic", "id", id, "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = status.Errorf(codes.Internal, "the sidecar failed on this request; the operator finds it in the log as %s", id)
	}
}

// streamed receives the requests that are answered by a stream as those of any call are received,
// and has them pass by what every call passes by.
func streamed(in *intake, chain []grpc.UnaryServerInterceptor) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		var req proto.Message
		var answer func(ctx context.Context) error
		sent := question{stream, in} // which ends when it is not read
		switch service := srv.(type) {
		case *Service:
			call := new(sidecallv1.ExecuteToolStreamRequest)
			req, answer = call, func(ctx context.Context) error { return service.stream(ctx, call, sent) }
		case *MCP:
			follow := new(sidecallv1.FollowRequest)
			req, answer = follow, func(ctx context.Context) error { return service.follow(ctx, follow, sent) }
		default:
			return next(srv, stream)
		}
		wire, ok := grpc.ServerTransportStreamFromContext(stream.Context()).(wireStream)
		if !ok {
			return status.Error(codes.Internal, "the stream has no transport")
		}
		ctx, data, release, err := in.admit(stream.Context(), wire)
		if err != nil {
			return err
		}
		defer release()
		if err := in.decode(ctx, data, req); err != nil {
			return err
		}
		_, err = through(chain, ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: info.FullMethod}, func(ctx context.Context, _ any) (any, error) {
			return nil, answer(ctx)
		})
		return err
	}
}

// through runs a handler behind interceptors.
func through(chain []grpc.UnaryServerInterceptor, ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) { //nolint:revive // the order of the interceptors' own
	if len(chain) == 0 {
		return handler(ctx, req)
	}
	return chain[0](ctx, req, info, func(ctx context.Context, req any) (any, error) {
		return through(chain[1:], ctx, req, info, handler)
	})
}
