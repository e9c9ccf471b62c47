package server

import (
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/limit"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// WorkerStream is the stream of a worker.
type WorkerStream = grpc.BidiStreamingServer[sidecallv1.WorkerMessage, sidecallv1.WorkerCommand]

// Workers takes in the workers of a sidecar.
type Workers interface {
	// Serve keeps a worker of a tenant until its stream ends, and returns the status
	// of that. It starts nothing that uses the stream when that has ended. offered are
	// the profiles of the address that it came by, as in Service.
	Serve(tenant string, offered []string, register *sidecallv1.WorkerRegister, stream WorkerStream) error
}

// ErrNoWorkers is the status of a worker's stream where no worker backend is configured.
var ErrNoWorkers = status.Error(codes.Unimplemented, "no worker backend is configured: add one, as in backends: {local: {worker: {}}}")

// workerService is the WorkerService of a sidecar: it reads who comes, and hands the
// stream on.
type workerService struct {
	sidecallv1.UnimplementedWorkerServiceServer

	workers Workers
	offered []string
	drain   *Drain
	logger  *slog.Logger
	// intake receives the registrations.
	intake *intake
}

// forWorkers lets workers come to a server, where there are any.
func (g *GRPC) forWorkers(server *grpc.Server, in *intake, offered []string) {
	if g.options.Workers == nil {
		return
	}
	own := *in
	own.excess = codes.InvalidArgument // a worker comes again after what others are in the way of
	sidecallv1.RegisterWorkerServiceServer(server, &workerService{
		workers: g.options.Workers, offered: offered, drain: g.drain, logger: g.logger, intake: &own,
	})
}

// Serve takes one worker in. A sidecar that drains takes none; those that it has it
// keeps until their calls have ended.
func (w *workerService) Serve(stream WorkerStream) (err error) {
	defer caught(stream.Context(), w.logger, sidecallv1.WorkerService_Serve_FullMethodName, &err)
	if w.drain.Draining() {
		return errDraining
	}
	first := w.first(stream)
	defer first.load.Release()
	if first.err != nil {
		return first.err
	}
	return w.workers.Serve(tenantOf(w.offered), w.offered, first.register, undecided{stream, first.load})
}

// undecided is the stream of a worker whose registration takes room, until it is told what
// became of it.
type undecided struct {
	WorkerStream

	load *limit.Load
}

func (s undecided) Send(command *sidecallv1.WorkerCommand) error {
	s.load.Release()
	return s.WorkerStream.Send(command)
}

// introduction is the registration of a worker and what it holds, or why there is none.
type introduction struct {
	register *sidecallv1.WorkerRegister
	load     *limit.Load
	err      error
}

// first reads the registration. One that connects and says nothing holds no place, and
// is sent away when the time of its arrival is over; the reading ends with the stream,
// which ends when its handler returns.
func (w *workerService) first(stream WorkerStream) introduction {
	came := make(chan introduction)
	go func() {
		first := w.receive(stream)
		select {
		case came <- first:
		case <-stream.Context().Done():
			first.load.Release()
		}
	}()
	select {
	case first := <-came:
		arrivalOf(stream.Context()).end()
		return first
	case <-stream.Context().Done():
		return introduction{err: ended(stream.Context(), stream.Context().Err())}
	}
}

// receive reads the first message as requests are read: a large one only when there is
// room for it.
func (w *workerService) receive(stream WorkerStream) introduction {
	wire, ok := grpc.ServerTransportStreamFromContext(stream.Context()).(wireStream)
	if !ok {
		return registration(stream.Recv())
	}
	data, load, err := w.intake.receive(stream.Context(), wire)
	if err != nil {
		return introduction{err: err}
	}
	message := &sidecallv1.WorkerMessage{}
	first := registration(message, w.intake.decode(stream.Context(), data, message))
	first.load = load
	return first
}

// registration is what a first message is to be.
func registration(message *sidecallv1.WorkerMessage, err error) introduction {
	register := message.GetRegister()
	if err == nil && register == nil {
		err = status.Error(codes.InvalidArgument, "the first message of a worker is its registration (register)")
	}
	return introduction{register: register, err: err}
}
