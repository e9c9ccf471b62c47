package sidecall_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	sidecall "github.com/sidecall/sidecall/clients/go"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// foreman is a sidecar's WorkerService whose streams the test serves.
type foreman struct {
	sidecallv1.UnimplementedWorkerServiceServer

	streams chan *line
}

// line is one stream.
type line struct {
	grpc.BidiStreamingServer[sidecallv1.WorkerMessage, sidecallv1.WorkerCommand]

	t        *testing.T
	register *sidecallv1.WorkerRegister
	end      chan error
}

func (f *foreman) Serve(stream grpc.BidiStreamingServer[sidecallv1.WorkerMessage, sidecallv1.WorkerCommand]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	l := &line{BidiStreamingServer: stream, register: first.GetRegister(), end: make(chan error, 1)}
	f.streams <- l
	select {
	case err := <-l.end:
		return err
	case <-stream.Context().Done():
		return nil
	}
}

// employ lets a worker work at a foreman until the test ends.
func employ(t *testing.T, w *sidecall.Worker) (_ *foreman, leave context.CancelFunc, ended <-chan error) {
	t.Helper()
	f := &foreman{streams: make(chan *line, 4)}
	pipe := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	sidecallv1.RegisterWorkerServiceServer(server, f)
	go func() { _ = server.Serve(pipe) }()
	client, err := sidecall.Dial("passthrough:///foreman", grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done, gone := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(gone)
		done <- client.Work(ctx, w)
	}()
	t.Cleanup(func() {
		cancel()
		server.Stop()
		<-gone
		_ = client.Close()
	})
	return f, cancel, done
}

// next is the next stream that registers, and is told so.
func (f *foreman) next(t *testing.T) *line {
	t.Helper()
	l := <-f.streams
	l.t = t
	l.tell(&sidecallv1.WorkerCommand{Command: &sidecallv1.WorkerCommand_Registered{Registered: &sidecallv1.WorkerRegistered{
		HeartbeatInterval: durationpb.New(time.Hour), MaxInFlight: 16, MaxMessageBytes: 8 << 10,
	}}})
	return l
}

func (l *line) tell(c *sidecallv1.WorkerCommand) {
	l.t.Helper()
	if err := l.Send(c); err != nil {
		l.t.Fatal(err)
	}
}

func (l *line) hears() *sidecallv1.WorkerMessage {
	l.t.Helper()
	m, err := l.Recv()
	if err != nil {
		l.t.Fatal(err)
	}
	return m
}

func (l *line) invoke(in *sidecallv1.WorkerInvoke) {
	l.t.Helper()
	l.tell(&sidecallv1.WorkerCommand{Command: &sidecallv1.WorkerCommand_Invoke{Invoke: in}})
}

// sum is an argument with everything that a schema comes from.
type sum struct {
	A int    `json:"a" jsonschema:"the first"`
	B int    `json:"b"`
	C string `json:"c,omitempty"`
}

// errClean is what a function returns when it has done nothing.
var errClean = errors.New("clean")

// added returns a worker with one function.
func added[In, Out any](t *testing.T, do func(context.Context, In) (Out, error)) *sidecall.Worker {
	t.Helper()
	w := &sidecall.Worker{Name: "agent"}
	if err := sidecall.Add(w, sidecall.Function{Name: "add", CleanError: func(err error) bool { return errors.Is(err, errClean) }}, do); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestAFunctionIsATool(t *testing.T) {
	w := &sidecall.Worker{Name: "agent", Backend: "local", MaxInFlight: 3}
	var seen sidecall.Invocation
	var left time.Duration
	err := sidecall.Add(w, sidecall.Function{
		Name: "add", Description: "Adds.", Effect: sidecall.Keyed, Sequential: true, Deadline: time.Minute,
		OutputSchema: json.RawMessage(`{"type":"object"}`), Annotations: map[string]string{"title": "Add"},
	}, func(ctx context.Context, in sum) (map[string]int, error) {
		seen, _ = sidecall.InvocationOf(ctx)
		end, _ := ctx.Deadline()
		left = time.Until(end)
		sidecall.Progress(ctx, "half")
		return map[string]int{"sum": in.A + in.B}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	f, _, _ := employ(t, w)
	l := f.next(t)
	got := l.register.GetTools()[0]
	if l.register.GetWorker() != "agent" || l.register.GetBackend() != "local" || l.register.GetMaxInFlight() != 3 || l.register.GetProtocolVersion() != 1 ||
		got.GetEffect() != sidecallv1.Effect_EFFECT_KEYED || !got.GetSequential() || got.GetPolling() || got.GetDeadline().AsDuration() != time.Minute || got.GetAttemptTimeout() != nil {
		t.Errorf("registered %v", l.register)
	}
	var schema struct {
		Type       string
		Required   []string
		Properties map[string]struct{ Type, Description string }
	}
	if err := json.Unmarshal([]byte(got.GetInputSchemaJson()), &schema); err != nil || schema.Type != "object" || strings.Join(schema.Required, " ") != "a b" ||
		schema.Properties["a"].Description != "the first" || schema.Properties["c"].Type != "string" {
		t.Errorf("its schema is %s, %v", got.GetInputSchemaJson(), err)
	}
	l.invoke(&sidecallv1.WorkerInvoke{
		InvocationId: "1", Tool: "add", ArgumentsJson: `{"a":1,"b":2}`, ToolUseId: "t", ConversationId: "c", TurnId: "u",
		IdempotencyKey: "k", Attempt: 2, Traceparent: "p", Baggage: "b", Deadline: durationpb.New(time.Hour),
	})
	if p := l.hears().GetProgress(); p.GetInvocationId() != "1" || p.GetNote() != "half" {
		t.Errorf("it says %v", p)
	}
	if r := l.hears().GetResult(); r.GetInvocationId() != "1" || r.GetStructuredContentJson() != `{"sum":3}` || r.GetIsError() {
		t.Errorf("it says %v", r)
	}
	if seen != (sidecall.Invocation{ToolName: "add", ToolUseID: "t", ConversationID: "c", TurnID: "u", Key: "k", Attempt: 2, Traceparent: "p", Baggage: "b"}) || left <= 0 || left > time.Hour {
		t.Errorf("the function saw %+v, %s", seen, left)
	}
}

// What a function returns, and how it fails, as the sidecar hears it.
func TestWhatAFunctionSays(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(context.Context, sum) (any, error)
		args string
		want *sidecallv1.WorkerResult
	}{
		"text":     {func(context.Context, sum) (any, error) { return "3", nil }, `{}`, &sidecallv1.WorkerResult{Content: "3"}},
		"nothing":  {func(context.Context, sum) (any, error) { return nil, nil }, `{}`, &sidecallv1.WorkerResult{StructuredContentJson: "null"}},
		"a reply":  {func(context.Context, sum) (any, error) { return sidecall.Reply{Content: "3", Structured: 3}, nil }, `{}`, &sidecallv1.WorkerResult{Content: "3", StructuredContentJson: "3"}},
		"an error": {func(context.Context, sum) (any, error) { return nil, errors.New("no luck") }, `{}`, &sidecallv1.WorkerResult{Content: "no luck", IsError: true}},
		"a failure": {func(context.Context, sum) (any, error) {
			return nil, &sidecall.Failure{Message: "later", Code: "RATE_LIMITED", NotRun: true, RetryAfter: time.Second}
		}, `{}`, &sidecallv1.WorkerResult{Content: "later", Code: "RATE_LIMITED", NotRun: true, IsError: true, RetryAfter: durationpb.New(time.Second)}},
		"a clean error": {func(context.Context, sum) (any, error) { return nil, fmt.Errorf("wrapped: %w", errClean) }, `{}`,
			&sidecallv1.WorkerResult{Content: "wrapped: clean", Code: "UNRECOVERABLE", NotRun: true, IsError: true}},
		"a clean failure": {func(context.Context, sum) (any, error) {
			return nil, errors.Join(errClean, &sidecall.Failure{Message: "declined", Code: "BUSINESS_RULE"})
		}, `{}`, &sidecallv1.WorkerResult{Content: "declined", Code: "BUSINESS_RULE", NotRun: true, IsError: true}},
		"a panic":   {func(context.Context, sum) (any, error) { panic("secret") }, `{}`, &sidecallv1.WorkerResult{Content: "the function failed unexpectedly", IsError: true}},
		"arguments": {func(context.Context, sum) (any, error) { return "ran", nil }, `{"a":"one"}`, &sidecallv1.WorkerResult{Code: "INVALID_ARGS", NotRun: true, IsError: true, Content: "the arguments cannot be read: json: cannot unmarshal string into Go struct field sum.a of type int"}},
		"a Goexit":  {func(context.Context, sum) (any, error) { runtime.Goexit(); return nil, nil }, `{}`, &sidecallv1.WorkerResult{Content: "the function failed unexpectedly", IsError: true}},
		"no JSON":   {func(context.Context, sum) (any, error) { return func() {}, nil }, `{}`, &sidecallv1.WorkerResult{StructuredContentJson: "-", Content: "the function ran, but its result is not JSON: json: unsupported type: func()"}},
		"too much":  {func(context.Context, sum) (any, error) { return strings.Repeat("é", 8<<10), nil }, `{}`, nil},
		"a picture": {func(context.Context, sum) (any, error) {
			return sidecall.Reply{Content: "look", Blocks: []*sidecallv1.ContentBlock{{Data: make([]byte, 8<<10)}}}, nil
		}, `{}`, nil},
		"large JSON": {func(context.Context, sum) (any, error) { return strings.Fields(strings.Repeat("x ", 8<<10)), nil }, `{}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f, _, _ := employ(t, added(t, c.do))
			l := f.next(t)
			l.invoke(&sidecallv1.WorkerInvoke{InvocationId: "1", Tool: "add", ArgumentsJson: c.args})
			got := l.hears()
			if c.want == nil {
				if size := proto.Size(got); size > 8<<10 || !strings.Contains(got.GetResult().GetContent(), "parts of it are left out") || got.GetResult().GetIsError() {
					t.Errorf("it says %d bytes: %.100v", size, got)
				}
				return
			}
			c.want.InvocationId = "1"
			if !proto.Equal(got.GetResult(), c.want) {
				t.Errorf("it says %v; want %v", got.GetResult(), c.want)
			}
		})
	}
}

// An error of a function that fails cleanly says that nothing was done; a panic says nothing, nor does that
// the function was broken off.
func TestAFunctionThatFailsCleanly(t *testing.T) {
	for arguments, want := range map[string]*sidecallv1.WorkerResult{
		`{"a":1}`: {InvocationId: "1", Content: "declined", Code: "UNRECOVERABLE", NotRun: true, IsError: true},
		`{"a":2}`: {InvocationId: "1", Content: "the function failed unexpectedly", IsError: true},
		`{"a":3}`: {InvocationId: "1", Content: "context deadline exceeded", IsError: true},
	} {
		w := &sidecall.Worker{Name: "agent"}
		err := sidecall.Add(w, sidecall.Function{Name: "pay", FailsCleanly: true}, func(ctx context.Context, in sum) (string, error) {
			switch in.A {
			case 1:
				return "", errors.New("declined")
			case 2:
				panic("paid, and lost its way")
			}
			<-ctx.Done()
			return "", ctx.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		f, _, _ := employ(t, w)
		l := f.next(t)
		if declared := l.register.GetTools()[0]; declared.GetFailsCleanly() {
			t.Errorf("it is declared as %v", declared)
		}
		left := time.Hour
		if arguments == `{"a":3}` {
			left = time.Millisecond
		}
		l.invoke(&sidecallv1.WorkerInvoke{InvocationId: "1", Tool: "pay", ArgumentsJson: arguments, Deadline: durationpb.New(left)})
		if got := l.hears().GetResult(); !proto.Equal(got, want) {
			t.Errorf("%s: it says %v; want %v", arguments, got, want)
		}
	}
}

// What is no tool is told before anything is registered.
func TestFunctionsThatAreNoTools(t *testing.T) {
	w := added(t, func(context.Context, sum) (string, error) { return "", nil })
	for says, err := range map[string]error{
		`function "add": there is one of that name`: sidecall.Add(w, sidecall.Function{Name: "add"}, func(context.Context, sum) (string, error) { return "", nil }),
		`function "no": its argument is a int`:      sidecall.Add(w, sidecall.Function{Name: "no"}, func(context.Context, int) (string, error) { return "", nil }),
		`function "ch": its argument has no schema`: sidecall.Add(w, sidecall.Function{Name: "ch"}, func(context.Context, struct{ C chan int }) (string, error) { return "", nil }),
	} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v; want %s", err, says)
		}
	}
	client, err := sidecall.Dial("passthrough:///nowhere")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Work(t.Context(), &sidecall.Worker{Name: "agent"}); err == nil || !strings.Contains(err.Error(), "no functions") {
		t.Errorf("without functions: %v", err)
	}
}

// A function whose call is cancelled sees it, and says what became of it all the same.
func TestACallThatIsCancelled(t *testing.T) {
	f, _, _ := employ(t, added(t, func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", &sidecall.Failure{Message: "undone", NotRun: true}
	}))
	l := f.next(t)
	l.invoke(&sidecallv1.WorkerInvoke{InvocationId: "1", Tool: "add", ArgumentsJson: "{}"})
	l.tell(&sidecallv1.WorkerCommand{}) // what is not known is passed over
	l.tell(&sidecallv1.WorkerCommand{Command: &sidecallv1.WorkerCommand_Cancel{Cancel: &sidecallv1.WorkerCancel{InvocationId: "7"}}})
	l.tell(&sidecallv1.WorkerCommand{Command: &sidecallv1.WorkerCommand_Cancel{Cancel: &sidecallv1.WorkerCancel{InvocationId: "1"}}})
	if r := l.hears().GetResult(); r.GetContent() != "undone" || !r.GetNotRun() {
		t.Errorf("it says %v", r)
	}
	l.invoke(&sidecallv1.WorkerInvoke{InvocationId: "2", Tool: "sub", ArgumentsJson: "{}"})
	if r := l.hears().GetResult(); !r.GetNotRun() || r.GetCode() != "NOT_FOUND" {
		t.Errorf("of a function that it does not have: %v", r)
	}
}

// A stream that ends, however it ends, is followed by another; a goodbye is at once.
func TestAWorkerComesAgain(t *testing.T) {
	release := make(chan struct{})
	f, leave, done := employ(t, added(t, func(context.Context, struct{}) (string, error) {
		<-release
		return "late", nil
	}))
	f.next(t).end <- nil
	f.next(t).end <- status.Error(codes.Unavailable, "draining")
	f.next(t).end <- status.Error(codes.DeadlineExceeded, "silent")
	old := f.next(t)
	old.invoke(&sidecallv1.WorkerInvoke{InvocationId: "1", Tool: "add", ArgumentsJson: "{}"})
	old.tell(&sidecallv1.WorkerCommand{Command: &sidecallv1.WorkerCommand_Goodbye{Goodbye: &sidecallv1.WorkerGoodbye{}}})
	renewed := f.next(t) // while the old one has its call
	close(release)
	if r := old.hears().GetResult(); r.GetContent() != "late" {
		t.Errorf("it says %v", r)
	}
	go func() { old.end <- nil }()
	go func() {
		left := renewed.hears().GetLeave()
		for left == nil {
			left = renewed.hears().GetLeave()
		}
		renewed.end <- nil
	}()
	leave()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Whatever a function says that is no UTF-8, the stream and its other calls go on.
func TestAResultThatIsNoUTF8CostsItsOwnCall(t *testing.T) {
	block := &sidecallv1.ContentBlock{Type: "resource\xe9", MimeType: "a\xe9", Uri: "b\xe9", Name: "c\xe9", Text: "d\xe9", Data: []byte("\xe9")}
	readable := &sidecallv1.ContentBlock{Type: "resource\ufffd", MimeType: "a\ufffd", Uri: "b\ufffd", Name: "c\ufffd", Text: "d\ufffd", Data: []byte("\xe9")}
	for name, c := range map[string]struct {
		do   func(context.Context) (any, error)
		want *sidecallv1.WorkerResult
	}{
		"text":  {func(context.Context) (any, error) { return "caf\xe9", nil }, &sidecallv1.WorkerResult{Content: "caf\ufffd"}},
		"error": {func(context.Context) (any, error) { return nil, errors.New("caf\xe9") }, &sidecallv1.WorkerResult{Content: "caf\ufffd", IsError: true}},
		"code": {func(context.Context) (any, error) { return nil, &sidecall.Failure{Message: "no", Code: "\xe9"} },
			&sidecallv1.WorkerResult{Content: "no", Code: "\ufffd", IsError: true}},
		"JSON": {func(context.Context) (any, error) { return json.RawMessage(`"caf` + "\xe9" + `"`), nil }, &sidecallv1.WorkerResult{StructuredContentJson: `"caf` + "\ufffd" + `"`}},
		"block": {func(context.Context) (any, error) {
			return sidecall.Reply{Blocks: []*sidecallv1.ContentBlock{block}}, nil
		},
			&sidecallv1.WorkerResult{Blocks: []*sidecallv1.ContentBlock{readable}}},
		"progress": {func(ctx context.Context) (any, error) { sidecall.Progress(ctx, "caf\xe9"); return "done", nil }, &sidecallv1.WorkerResult{Content: "done"}},
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			f, _, _ := employ(t, added(t, func(ctx context.Context, in sum) (any, error) {
				if in.A == 1 {
					<-release
					return "the neighbour's", nil
				}
				return c.do(ctx)
			}))
			l := f.next(t)
			l.invoke(&sidecallv1.WorkerInvoke{InvocationId: "1", Tool: "add", ArgumentsJson: `{"a":1}`})
			l.invoke(&sidecallv1.WorkerInvoke{InvocationId: "2", Tool: "add", ArgumentsJson: `{"a":2}`})
			heard := l.hears()
			if p := heard.GetProgress(); p != nil {
				if p.GetNote() != "caf\ufffd" {
					t.Errorf("it says %v", p)
				}
				heard = l.hears()
			}
			c.want.InvocationId = "2"
			if !proto.Equal(heard.GetResult(), c.want) {
				t.Errorf("it says %v; want %v", heard, c.want)
			}
			close(release)
			if r := l.hears().GetResult(); r.GetInvocationId() != "1" || r.GetContent() != "the neighbour's" {
				t.Errorf("its neighbour says %v", r)
			}
		})
	}
}

// A note that is too long for a message would end the stream.
func TestProgressIsCutThatIsTooLongForAMessage(t *testing.T) {
	f, _, _ := employ(t, added(t, func(ctx context.Context, _ struct{}) (string, error) {
		sidecall.Progress(ctx, "a"+strings.Repeat("é", 8<<10))
		return "done", nil
	}))
	l := f.next(t)
	l.invoke(&sidecallv1.WorkerInvoke{InvocationId: "1", Tool: "add", ArgumentsJson: `{}`})
	if note := l.hears().GetProgress().GetNote(); note != "a"+strings.Repeat("é", 511) {
		t.Errorf("it says %d bytes: %.100s", len(note), note)
	}
}

// A registration that cannot be sent would never succeed, so it is not begun.
func TestAddRefusesTextThatIsNoUTF8(t *testing.T) {
	for name, f := range map[string]sidecall.Function{
		"name":          {Name: "caf\xe9"},
		"description":   {Name: "f", Description: "caf\xe9"},
		"annotation":    {Name: "f", Annotations: map[string]string{"caf\xe9": ""}},
		"input schema":  {Name: "f", InputSchema: json.RawMessage("{\"title\":\"\xe9\"}")},
		"output schema": {Name: "f", OutputSchema: json.RawMessage("{\"title\":\"\xe9\"}")},
	} {
		w := &sidecall.Worker{Name: "agent"}
		add := func(f sidecall.Function) error {
			return sidecall.Add(w, f, func(context.Context, sum) (string, error) { return "", nil })
		}
		if err := add(f); err == nil || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("%s: %v", name, err)
		}
		if err := add(sidecall.Function{Name: f.Name, Description: "another"}); name != "name" && err != nil {
			t.Errorf("%s: it was added all the same: %v", name, err)
		}
	}
}

// A worker whose own name no message can hold is refused by the sidecar as one with any
// other bad name is.
func TestAWorkerWithANameThatIsNoUTF8Registers(t *testing.T) {
	w := added(t, func(context.Context, struct{}) (string, error) { return "", nil })
	w.Name, w.Backend = "caf\xe9", "caf\xe9"
	f, _, _ := employ(t, w)
	if l := f.next(t); l.register.GetWorker() != "caf\ufffd" || l.register.GetBackend() != "caf\ufffd" {
		t.Errorf("it registers as %v", l.register)
	}
}

// A function that is not to run twice at a time does not, whatever streams its worker has.
func TestThePlacesOfAWorkerAreThoseOfAllItsStreams(t *testing.T) {
	var first atomic.Bool
	begun, release := make(chan struct{}), make(chan struct{})
	var log []int
	w := added(t, func(_ context.Context, in sum) (string, error) {
		if first.CompareAndSwap(false, true) {
			close(begun)
			<-release
		}
		log = append(log, in.A) // a race where there is more than one place
		return "done", nil
	})
	w.MaxInFlight = 1
	f, _, _ := employ(t, w)
	old := f.next(t)
	old.add(1)
	<-begun
	old.tell(&sidecallv1.WorkerCommand{Command: &sidecallv1.WorkerCommand_Goodbye{Goodbye: &sidecallv1.WorkerGoodbye{}}})

	lost := f.next(t)
	lost.add(2) // waits for the place, until its stream ends
	lost.add(3)
	if r := lost.hears().GetResult(); r.GetInvocationId() != "3" || r.GetCode() != "OVERLOADED" || !r.GetNotRun() {
		t.Errorf("more than it asked for: %v", r)
	}
	lost.end <- status.Error(codes.Unavailable, "lost")

	l := f.next(t)
	l.add(4) // waits, until nobody waits for it
	l.tell(&sidecallv1.WorkerCommand{Command: &sidecallv1.WorkerCommand_Cancel{Cancel: &sidecallv1.WorkerCancel{InvocationId: "4"}}})
	if r := l.hears().GetResult(); r.GetInvocationId() != "4" || !r.GetNotRun() {
		t.Errorf("a call that was cancelled before it began: %v", r)
	}
	l.add(5) // waits, and has the place then
	close(release)
	for line, id := range map[*line]string{old: "1", l: "5"} {
		if r := line.hears().GetResult(); r.GetInvocationId() != id || r.GetContent() != "done" {
			t.Errorf("it says %v; want %s done", r, id)
		}
	}
	if !slices.Equal(log, []int{1, 5}) {
		t.Errorf("it ran %v", log)
	}
}

// add is a call of the function, with its number as argument.
func (l *line) add(n int) {
	l.t.Helper()
	l.invoke(&sidecallv1.WorkerInvoke{InvocationId: strconv.Itoa(n), Tool: "add", ArgumentsJson: fmt.Sprintf(`{"a":%d}`, n)})
}

// logged is a log that the test reads.
type logged chan slog.Record

func (logged) Enabled(context.Context, slog.Level) bool { return true }

func (t logged) Handle(_ context.Context, r slog.Record) error { t <- r; return nil }

func (t logged) WithAttrs([]slog.Attr) slog.Handler { return t }

func (t logged) WithGroup(string) slog.Handler { return t }

// A worker that is refused for now goes on, and whoever runs it reads of that, without a
// Logger too.
func TestARefusalIsSaidWithoutALogger(t *testing.T) {
	before, log := slog.Default(), make(logged, 16)
	t.Cleanup(func() { slog.SetDefault(before) })
	slog.SetDefault(slog.New(log))
	f, _, _ := employ(t, added(t, func(context.Context, struct{}) (string, error) { return "", nil }))
	(<-f.streams).end <- status.Error(codes.ResourceExhausted, "there are as many workers as there may be")
	record := <-log
	var why string
	record.Attrs(func(a slog.Attr) bool { why += a.Value.String(); return true })
	if record.Level != slog.LevelWarn || !strings.Contains(why, "there are as many workers as there may be") {
		t.Errorf("it says %s %s %s", record.Level, record.Message, why)
	}
	f.next(t).end <- nil
	if record := <-log; record.Level != slog.LevelInfo {
		t.Errorf("of a sidecar that has gone it says %s %s", record.Level, record.Message)
	}
}

// A worker that a sidecar refuses for good is told why.
func TestAWorkerThatIsRefused(t *testing.T) {
	for code := range map[codes.Code]bool{codes.InvalidArgument: true, codes.AlreadyExists: true, codes.FailedPrecondition: true, codes.Unimplemented: true} {
		w := added(t, func(context.Context, struct{}) (string, error) { return "", nil })
		f, _, done := employ(t, w)
		(<-f.streams).end <- status.Error(code, "this is why")
		err := <-done
		if err == nil || status.Code(err) != code || !strings.Contains(err.Error(), "this is why") {
			t.Errorf("%s: %v", code, err)
		}
	}
}
