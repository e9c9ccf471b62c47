package sidecall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
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
	// places are those of the worker, over all its streams; a call that runs has one.
	places chan struct{}
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

func newShift(life context.Context, w *Worker, places chan struct{}) *shift {
	return &shift{worker: w, life: life, places: places, goodbye: make(chan struct{}), calls: make(map[string]context.CancelFunc)}
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
		Worker: readable(s.worker.Name), ProtocolVersion: 1, MaxInFlight: int32(cap(s.places)),
		Tools: s.worker.declared, Backend: readable(s.worker.Backend),
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
// finds out. One that cannot be sent ends the stream.
func (s *shift) say(message *sidecallv1.WorkerMessage) {
	s.sending.Lock()
	defer s.sending.Unlock()
	if err := s.stream.Send(message); err != nil && err != io.EOF { //nolint:errorlint // of a stream that has ended it is exactly this
		s.worker.log().Warn("cannot send to the sidecar", "worker", s.worker.Name, "why", err)
	}
}

// overloaded is what a call hears that has got no place.
var overloaded = &Failure{Code: "OVERLOADED", Message: "this worker has as many calls as it wants", NotRun: true}

// begin runs a call, in a goroutine that ends with its function. A sidecar sends no
// more of them on a stream than there are places for.
func (s *shift) begin(in *sidecallv1.WorkerInvoke) {
	ctx, cancel := s.timed(in)
	f := s.worker.functions[in.GetTool()]
	s.mu.Lock()
	full := len(s.calls) >= cap(s.places)
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
		s.answer(in, failureOf(overloaded))
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
func (s *shift) call(ctx context.Context, f function, in *sidecallv1.WorkerInvoke) {
	result := failureOf(errUnexpected) // of a function that ends its goroutine, and does not return
	defer func() {
		s.mu.Lock()
		cancel := s.calls[in.GetInvocationId()]
		delete(s.calls, in.GetInvocationId())
		s.mu.Unlock()
		cancel()
		s.answer(in, result)
	}()
	if !s.take(ctx) {
		result = failureOf(overloaded)
		return
	}
	defer func() { <-s.places }()
	progress := func(note string) {
		s.say(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Progress{
			Progress: &sidecallv1.WorkerProgress{InvocationId: in.GetInvocationId(), Note: shortened(readable(note), longestNote)},
		}})
	}
	ctx = context.WithValue(ctx, currentKey{}, &current{progress: progress, Invocation: Invocation{
		ToolName: in.GetTool(), ToolUseID: in.GetToolUseId(), ConversationID: in.GetConversationId(), TurnID: in.GetTurnId(),
		Key: in.GetIdempotencyKey(), Attempt: int(in.GetAttempt()), Traceparent: in.GetTraceparent(), Baggage: in.GetBaggage(),
	}})
	result = s.safely(ctx, f, in)
}

// take takes a place. Calls of an earlier stream may have them all: then it waits, for as
// long as there is somebody to hear of the call.
func (s *shift) take(ctx context.Context) bool {
	select {
	case s.places <- struct{}{}:
		return true
	default:
	}
	streaming := s.stream.Context()
	select {
	case s.places <- struct{}{}:
		if streaming.Err() == nil {
			return true
		}
		<-s.places
	case <-ctx.Done():
	case <-streaming.Done():
	}
	return false
}

// errUnexpected is how a function fails that neither returns nor says why.
var errUnexpected = errors.New("the function failed unexpectedly")

// safely runs a function; a panic is its failure, and not the program's end.
func (s *shift) safely(ctx context.Context, f function, in *sidecallv1.WorkerInvoke) (result *sidecallv1.WorkerResult) {
	defer func() {
		if p := recover(); p != nil {
			s.worker.log().Error("panic in a function", "tool", in.GetTool(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			result = failureOf(errUnexpected)
		}
	}()
	result, err := f(ctx, in.GetArgumentsJson())
	if err != nil {
		return failureOf(err)
	}
	return result
}

// answer sends a result, as much of it as there is room for in a message, and as UTF-8
// can hold it: another would end the stream, and with it all other calls.
func (s *shift) answer(in *sidecallv1.WorkerInvoke, result *sidecallv1.WorkerResult) {
	result.InvocationId = in.GetInvocationId()
	result.Content, result.Code = readable(result.GetContent()), readable(result.GetCode())
	result.StructuredContentJson, result.Blocks = readable(result.GetStructuredContentJson()), readableBlocks(result.GetBlocks())
	fit(result, s.most)
	s.say(&sidecallv1.WorkerMessage{Message: &sidecallv1.WorkerMessage_Result{Result: result}})
}

// readable is text as UTF-8 can hold it: a message with any other cannot be sent.
func readable(text string) string { return strings.ToValidUTF8(text, "\ufffd") }

// readableBlocks are copies: a function may return the same blocks again.
func readableBlocks(blocks []*sidecallv1.ContentBlock) []*sidecallv1.ContentBlock {
	made := make([]*sidecallv1.ContentBlock, len(blocks))
	for i, b := range blocks {
		made[i] = &sidecallv1.ContentBlock{
			Type: readable(b.GetType()), MimeType: readable(b.GetMimeType()), Uri: readable(b.GetUri()), Name: readable(b.GetName()),
			Text: readable(b.GetText()), Data: b.GetData(), Size: b.GetSize(),
		}
	}
	return made
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
	result.Content = shortened(result.GetContent(), max(int(most)-2*wrapping-len(notice), 0)) + notice
}

// longestNote bounds what is said of progress, in bytes.
const longestNote = 1 << 10

// shortened is the beginning of a text, with no half of a character.
func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
