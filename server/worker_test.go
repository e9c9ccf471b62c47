package server

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/limit"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// mute is the stream of a worker that says nothing, or what first holds.
type mute struct {
	WorkerStream

	ctx   context.Context //nolint:containedctx // the stream's
	first *sidecallv1.WorkerMessage
	ended chan struct{}
}

func (m mute) Context() context.Context { return m.ctx }

func (m mute) Recv() (*sidecallv1.WorkerMessage, error) {
	if m.first != nil {
		return m.first, nil
	}
	<-m.ended
	return nil, errors.New("it has ended")
}

// takes is a Workers that does what it says.
type takes func(tenant string, register *sidecallv1.WorkerRegister) error

func (t takes) Serve(tenant string, _ []string, register *sidecallv1.WorkerRegister, _ WorkerStream) error {
	return t(tenant, register)
}

func frontOf(workers Workers) *workerService {
	return &workerService{workers: workers, drain: NewDrain(), logger: slog.New(slog.DiscardHandler), intake: newIntake(nil, 1, 4<<20)}
}

// Workers that connect and say nothing are sent away, and keep nobody else out.
func TestWorkersThatDoNotRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		front := frontOf(takes(func(string, *sidecallv1.WorkerRegister) error { return nil }))
		ended := make(chan struct{})
		defer close(ended) // as gRPC does when the handler has returned
		var refused sync.WaitGroup
		for range 300 {
			refused.Go(func() {
				ctx, err := front.intake.arriving.begin(t.Context(), &tap.Info{})
				if err != nil {
					t.Error(err)
				}
				if err := front.Serve(mute{ctx: ctx, ended: ended}); status.Code(err) != codes.DeadlineExceeded {
					t.Errorf("%v", err)
				}
			})
		}
		synctest.Wait()
		register := &sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Register{Register: &sidecallv1.WorkerRegister{Worker: "w"}}}
		if err := front.Serve(mute{ctx: t.Context(), first: register}); err != nil || time.Since(began) > 0 {
			t.Errorf("beside them: %v after %s", err, time.Since(began))
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := front.Serve(mute{ctx: gone, ended: ended}); status.Code(err) != codes.Canceled {
			t.Errorf("one that has gone: %v", err)
		}
		refused.Wait()
	})
}

// A registration is read as a request is: what is large only when there is room for it,
// and what is small waits for nobody.
func TestALargeRegistrationNeedsRoom(t *testing.T) {
	s := calltest.New(t)
	s.With(func(p *call.Parts) { p.Bytes = limit.NewBytes(1 << 20) })
	var others limit.Load
	others.Of(s.Bytes)
	others.Take(1 << 19)
	came := make(chan string, 1)
	client := dialWith(t, s, GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 100, Bytes: s.Bytes, Workers: takes(func(_ string, r *sidecallv1.WorkerRegister) error {
		came <- r.GetWorker()
		return nil
	})})
	for name, large := range map[string]int{"small": 0, "large": smallRequest, "larger": 1 << 20} {
		stream, err := sidecallv1.NewWorkerServiceClient(client.conn).Serve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		register := &sidecallv1.WorkerRegister{Worker: name, Tools: []*sidecallv1.WorkerTool{{Description: strings.Repeat("x", large)}}}
		_ = stream.Send(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Register{Register: register}}) // what is wrong with it says Recv
		switch _, err = stream.Recv(); {
		case name == "larger":
			if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "OVERLOADED") {
				t.Errorf("one for which there is no room: %v", err)
			}
		case !errors.Is(err, io.EOF) || <-came != name:
			t.Errorf("%s: %v", name, err)
		}
	}
	others.Release()
	if held := s.Bytes.Held(); held != 0 {
		t.Errorf("%d bytes are held by nobody", held)
	}
}

// deciding are Workers that say what is held while a registration is looked at, and when it
// is decided.
type deciding func(stream WorkerStream) error

func (d deciding) Serve(_ string, _ []string, _ *sidecallv1.WorkerRegister, stream WorkerStream) error {
	return d(stream)
}

// What a registration takes is held until its worker is told what became of it.
func TestARegistrationHoldsItsRoomUntilItIsDecided(t *testing.T) {
	s := calltest.New(t)
	s.With(func(p *call.Parts) { p.Bytes = limit.NewBytes(1 << 20) })
	for name, decide := range map[string]func(stream WorkerStream) error{
		"it is taken in": func(stream WorkerStream) error {
			err := stream.Send(&sidecallv1.WorkerCommand{})
			if held := s.Bytes.Held(); held != 0 {
				t.Errorf("%d bytes are held then", held)
			}
			return err
		},
		"it is refused": func(WorkerStream) error { return errDraining },
	} {
		client := dialWith(t, s, GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 100, Bytes: s.Bytes, Workers: deciding(func(stream WorkerStream) error {
			if held := s.Bytes.Held(); held < requestWeight*smallRequest {
				t.Errorf("%s: %d bytes are held before", name, held)
			}
			return decide(stream)
		})})
		stream, err := sidecallv1.NewWorkerServiceClient(client.conn).Serve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		register := &sidecallv1.WorkerRegister{Tools: []*sidecallv1.WorkerTool{{Description: strings.Repeat("x", smallRequest)}}}
		_ = stream.Send(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Register{Register: register}}) // what is wrong with it says Recv
		for err == nil {
			_, err = stream.Recv()
		}
		if held := s.Bytes.Held(); held != 0 {
			t.Errorf("%s: %d bytes are held by nobody", name, held)
		}
	}
}

// A registration that is too large by itself will be so the next time too.
func TestARegistrationThatIsTooLarge(t *testing.T) {
	s := calltest.New(t)
	client := dialWith(t, s, GRPCOptions{MaxRequestBytes: 1 << 20, MaxStreams: 100, Bytes: limit.NewBytes(64 << 20), Workers: takes(func(string, *sidecallv1.WorkerRegister) error { return nil })})
	for name, options := range map[string][]grpc.CallOption{"plain": nil, "packed": {grpc.UseCompressor(gzip.Name)}} {
		for _, size := range []int{1 << 20, 4 << 20} {
			stream, err := sidecallv1.NewWorkerServiceClient(client.conn).Serve(t.Context(), options...)
			if err != nil {
				t.Fatal(err)
			}
			register := &sidecallv1.WorkerRegister{Tools: []*sidecallv1.WorkerTool{{Description: strings.Repeat("x", size)}}}
			_ = stream.Send(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Register{Register: register}}) // what is wrong with it says Recv
			if _, err = stream.Recv(); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "limits.max_request_bytes") {
				t.Errorf("%s, %d bytes: %v", name, size, err)
			}
		}
	}
}

// A worker whose registration is long waits for its place as long as it takes: it is not
// the one that is silent.
func TestALongRegistrationWaitsForItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		front := frontOf(takes(func(string, *sidecallv1.WorkerRegister) error { return nil }))
		front.intake = newIntake(limit.NewBytes(4<<20), 1, 4<<20)
		tool := &sidecallv1.WorkerTool{Name: "a", Description: strings.Repeat("x", 70<<10)}
		long, err := proto.Marshal(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Register{Register: &sidecallv1.WorkerRegister{Worker: "w", Tools: []*sidecallv1.WorkerTool{tool}}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, err := front.intake.arriving.begin(grpc.NewContextWithServerTransportStream(t.Context(), sentStream{data: long}), &tap.Info{})
		if err != nil {
			t.Fatal(err)
		}
		front.intake.receivers <- struct{}{}
		served := make(chan error, 1)
		go func() { served <- front.Serve(mute{ctx: ctx}) }()
		time.Sleep(3 * receivePatience)
		<-front.intake.receivers
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// sentStream has sent one message.
type sentStream struct {
	grpc.ServerTransportStream

	data []byte
}

func (s sentStream) ReadMessageHeader(header []byte) error {
	binary.BigEndian.PutUint32(header[1:], uint32(len(s.data)))
	return nil
}

func (s sentStream) Read(int) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(s.data)}, nil
}

func (sentStream) RecvCompress() string { return "" }

// What a worker says first is who it is; a bug in what follows is not the process's
// end, and a sidecar that drains takes none.
func TestTheFirstMessageOfAWorker(t *testing.T) {
	heartbeat := &sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Heartbeat{Heartbeat: &sidecallv1.WorkerHeartbeat{}}}
	register := &sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Register{Register: &sidecallv1.WorkerRegister{Worker: "w"}}}
	front := frontOf(takes(func(_ string, r *sidecallv1.WorkerRegister) error {
		if r.GetWorker() == "w" {
			panic("a bug")
		}
		return nil
	}))
	for code, first := range map[codes.Code]*sidecallv1.WorkerMessage{codes.InvalidArgument: heartbeat, codes.Internal: register} {
		if err := front.Serve(mute{ctx: t.Context(), first: first}); status.Code(err) != code || strings.Contains(err.Error(), "a bug") {
			t.Errorf("%v: %v", first, err)
		}
	}
	front.drain.Start(t.Context())
	if err := front.Serve(mute{ctx: t.Context(), first: register}); status.Code(err) != codes.Unavailable {
		t.Errorf("while it drains: %v", err)
	}
}

// A worker whose stream had to give way is told so.
func TestAWorkerThatGaveWayIsToldSo(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errCrowded)
	front := frontOf(takes(func(string, *sidecallv1.WorkerRegister) error { return nil }))
	stream := mute{ctx: ctx, ended: make(chan struct{})}
	defer close(stream.ended)
	if err := front.Serve(stream); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v", err)
	}
}
