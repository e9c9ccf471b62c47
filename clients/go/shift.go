package sidecall

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// shift is the work on one stream: from the registration to its end.
type shift struct {
	worker *Worker
	// life ends the functions.
	life context.Context //nolint:containedctx // the worker's, not a call's
	// goodbye is closed when another stream is to be opened.
	goodbye chan struct{}
	isIn    atomic.Bool
	most    int64 // bytes of a message; set before the first call

	// sending is held by who sends: a stream has one sender at a time.
	sending sync.Mutex
	stream  grpc.BidiStreamingClient[sidecallv1.WorkerMessage, sidecallv1.WorkerCommand]

	// mu guards calls: how to cancel those that run, by their ids.
	mu    sync.Mutex
	calls map[string]context.CancelFunc
}

func newShift(life context.Context, w *Worker) *shift {
	return &shift{worker: w, life: life, goodbye: make(chan struct{}), calls: make(map[string]context.CancelFunc)}
}

func (s *shift) registered() bool { return s.isIn.Load() }

// run works until the stream ends, and returns its status; nil when it ended well.
// When ctx ends the worker leaves: what it has goes on for its grace.
func (s *shift) run(ctx context.Context, service sidecallv1.WorkerServiceClient) error {
	// Functions that run need the stream after ctx has ended.
	streaming, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	stream, err := service.Serve(streaming)
	if err != nil {
		return err
	}
	s.stream = stream
	s.say(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Register{Register: &sidecallv1.WorkerRegister{
		Worker: s.worker.Name, ProtocolVersion: 1, MaxInFlight: int32(s.worker.places()), Tools: s.worker.declared, Backend: s.worker.Backend,
	}}})
	defer context.AfterFunc(ctx, func() {
		grace := time.AfterFunc(s.worker.grace(), hangUp)
		defer grace.Stop()
		s.say(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Leave{Leave: &sidecallv1.WorkerLeave{}}})
		<-streaming.Done()
	})()
	var beating sync.WaitGroup
	defer beating.Wait()
	defer hangUp()
	for {
		command, err := stream.Recv()
		if err == io.EOF { //nolint:errorlint // a stream that ends well returns exactly this
			return nil
		}
		if err != nil {
			return err
		}
		s.obey(command, func(every time.Duration) { beating.Go(func() { s.beat(streaming, every) }) })
	}
}

// obey does what the sidecar says, and nothing of what is not known here.
func (s *shift) obey(command *sidecallv1.WorkerCommand, beat func(every time.Duration)) {
	switch c := command.GetCommand().(type) {
	case *sidecallv1.WorkerCommand_Registered:
		if !s.isIn.CompareAndSwap(false, true) {
			return
		}
		s.most = c.Registered.GetMaxMessageBytes()
		if every := c.Registered.GetHeartbeatInterval().AsDuration(); every > 0 {
			beat(every / 2)
		}
		if s.worker.OnRegistered != nil {
			s.worker.OnRegistered(c.Registered.GetTools())
		}
	case *sidecallv1.WorkerCommand_Invoke:
		s.begin(c.Invoke)
	case *sidecallv1.WorkerCommand_Cancel:
		s.mu.Lock()
		defer s.mu.Unlock()
		if cancel := s.calls[c.Cancel.GetInvocationId()]; cancel != nil {
			cancel()
		}
	case *sidecallv1.WorkerCommand_Goodbye:
		select {
		case <-s.goodbye:
		default:
			close(s.goodbye)
		}
	}
}

// beat says that the worker lives, until the stream ends.
func (s *shift) beat(streaming context.Context, every time.Duration) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-streaming.Done():
			return
		case <-ticks.C:
			s.say(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Heartbeat{Heartbeat: &sidecallv1.WorkerHeartbeat{}}})
		}
	}
}

// say sends a message. On a stream that has ended it goes nowhere, which the reading
// finds out.
func (s *shift) say(message *sidecallv1.WorkerMessage) {
	s.sending.Lock()
	defer s.sending.Unlock()
	_ = s.stream.Send(message) // Recv has the status of a stream that has ended
}

// begin runs a call, in a goroutine that ends with its function. A sidecar sends no
// more of them than there are places for.
func (s *shift) begin(in *sidecallv1.WorkerInvoke) {
	ctx, cancel := s.timed(in)
	f := s.worker.functions[in.GetTool()]
	s.mu.Lock()
	full := len(s.calls) >= s.worker.places()
	if f != nil && !full {
		s.calls[in.GetInvocationId()] = cancel
	}
	s.mu.Unlock()
	switch {
	case f == nil:
		cancel()
		s.answer(in, failureOf(&Failure{Code: "NOT_FOUND", Message: "this worker has no function " + in.GetTool(), NotRun: true}))
	case full:
		cancel()
		s.answer(in, failureOf(&Failure{Code: "OVERLOADED", Message: "this worker has as many calls as it wants", NotRun: true}))
	default:
		go s.call(ctx, f, in)
	}
}

// timed is the context of a call.
func (s *shift) timed(in *sidecallv1.WorkerInvoke) (context.Context, context.CancelFunc) {
	if in.GetDeadline() == nil {
		return context.WithCancel(s.life)
	}
	return context.WithTimeout(s.life, in.GetDeadline().AsDuration())
}

// call runs a function and says what became of it.
func (s *shift) call(ctx context.Context, f *function, in *sidecallv1.WorkerInvoke) {
	progress := func(note string) {
		s.say(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Progress{
			Progress: &sidecallv1.WorkerProgress{InvocationId: in.GetInvocationId(), Note: note},
		}})
	}
	ctx = context.WithValue(ctx, currentKey{}, &current{progress: progress, Invocation: Invocation{
		ToolName: in.GetTool(), ToolUseID: in.GetToolUseId(), ConversationID: in.GetConversationId(), TurnID: in.GetTurnId(),
		Key: in.GetIdempotencyKey(), Attempt: int(in.GetAttempt()), Traceparent: in.GetTraceparent(), Baggage: in.GetBaggage(),
	}})
	result := s.safely(ctx, f, in)
	s.mu.Lock()
	cancel := s.calls[in.GetInvocationId()]
	delete(s.calls, in.GetInvocationId())
	s.mu.Unlock()
	cancel()
	s.answer(in, result)
}

// safely runs a function; a panic is its failure, and not the program's end.
func (s *shift) safely(ctx context.Context, f *function, in *sidecallv1.WorkerInvoke) (result *sidecallv1.WorkerResult) {
	defer func() {
		if p := recover(); p != nil {
			s.worker.log().Error("panic in a function", "tool", in.GetTool(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			result = failureOf(&Failure{Message: "the function failed unexpectedly"})
		}
	}()
	result, err := f.do(ctx, in.GetArgumentsJson())
	if err != nil {
		return failureOf(err)
	}
	return result
}

// answer sends a result, as much of it as there is room for in a message: a larger one
// would end the stream, and with it all other calls.
func (s *shift) answer(in *sidecallv1.WorkerInvoke, result *sidecallv1.WorkerResult) {
	result.InvocationId = in.GetInvocationId()
	fit(result, s.most)
	s.say(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Result{Result: result}})
}

// wrapping is what a message has beside its content, in bytes.
const wrapping = 1 << 10

// fit leaves out what is too much: blocks, then structured content, then the end of the
// text.
func fit(result *sidecallv1.WorkerResult, most int64) {
	size := int64(proto.Size(result)) + wrapping
	if most <= 0 || size <= most {
		return
	}
	notice := fmt.Sprintf("\n[The result of %d bytes is larger than a worker may send, %d bytes: parts of it are left out.]", size-wrapping, most)
	if result.GetContent() == "" {
		result.Content = result.GetStructuredContentJson()
	}
	result.Blocks, result.StructuredContentJson = nil, ""
	room := max(int(most)-2*wrapping-len(notice), 0)
	if cut := min(room, len(result.GetContent())); cut < len(result.GetContent()) {
		for cut > 0 && !utf8.RuneStart(result.GetContent()[cut]) {
			cut--
		}
		result.Content = result.GetContent()[:cut]
	}
	result.Content += notice
}
