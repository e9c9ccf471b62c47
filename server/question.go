package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// maxQuestion bounds a request to a service that says something of the server, in
	// bytes: names, which gRPC keeps while they are watched, and repeats.
	maxQuestion = 4 << 10
	// maxWatching bounds the streams of those services that are open at a time, of each
	// listener.
	maxWatching = 256
)

// questions are the services that say something of the server itself: its health, and
// its reflection. gRPC brings them; they are registered here to be received as all
// others are.
type questions struct {
	*grpc.Server

	intake   *intake
	watching chan struct{}
}

// RegisterService implements grpc.ServiceRegistrar.
func (q questions) RegisterService(service *grpc.ServiceDesc, implementation any) {
	own := q.intake.methods(service)
	own.Streams = make([]grpc.StreamDesc, len(service.Streams))
	for i, stream := range service.Streams {
		own.Streams[i] = stream
		own.Streams[i].Handler = func(srv any, s grpc.ServerStream) error {
			select {
			case q.watching <- struct{}{}:
				defer func() { <-q.watching }()
			default:
				return status.Errorf(codes.ResourceExhausted, "OVERLOADED: %d streams of health and reflection are open, and no more may be", maxWatching)
			}
			return stream.Handler(srv, question{s, q.intake})
		}
	}
	q.Server.RegisterService(own, implementation)
}

// question is a stream of questions and answers.
type question struct {
	grpc.ServerStream

	intake *intake
}

// RecvMsg receives the next question.
func (q question) RecvMsg(into any) error {
	ctx := q.Context()
	stream, ok := grpc.ServerTransportStreamFromContext(ctx).(wireStream)
	if !ok {
		return q.ServerStream.RecvMsg(into)
	}
	data, load, err := q.intake.receive(ctx, stream)
	if err != nil {
		return err
	}
	defer load.Release()
	return q.intake.decode(ctx, data, into)
}

// SendMsg sends an answer. A stream ends whose answers are not read.
func (q question) SendMsg(answer any) error {
	on := arrivalOf(q.Context())
	on.wait()
	defer on.rest()
	if err := q.ServerStream.SendMsg(answer); err != nil {
		return ended(q.Context(), err)
	}
	return nil
}

// ended is the status of a stream that has ended: why, where that is known.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if s, ok := status.FromError(context.Cause(ctx)); ok {
		return s.Err()
	}
	return status.FromContextError(ctx.Err()).Err()
}
