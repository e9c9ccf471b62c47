package sidecall

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Effect says what repeating a call of a function would do. The zero value is the
// most dangerous one.
type Effect int32

// The effects, as in the config of a sidecar.
const (
	// NonIdempotent must not be repeated.
	NonIdempotent = Effect(sidecallv1.Effect_EFFECT_UNSPECIFIED)
	// ReadOnly has no effect.
	ReadOnly = Effect(sidecallv1.Effect_EFFECT_READ_ONLY)
	// Idempotent may be repeated: that changes nothing more.
	Idempotent = Effect(sidecallv1.Effect_EFFECT_IDEMPOTENT)
	// Keyed may be repeated because the function sees to it, by Invocation.Key.
	Keyed = Effect(sidecallv1.Effect_EFFECT_KEYED)
)

// Worker is functions of this program that a sidecar calls as tools. Add adds one;
// Client.Work serves them. A Worker is not changed while it is served.
type Worker struct {
	// Name is what the workers of one program call themselves: 1 to 64 of
	// [A-Za-z0-9._-]. Required.
	Name string
	// Backend is the worker backend in the sidecar's config; empty where there is
	// only one.
	Backend string
	// MaxInFlight is the most calls at a time; 0 means 16.
	MaxInFlight int
	// Grace is how long functions may go on when the work is to end; 0 means 30 s.
	Grace time.Duration
	// OnRegistered, when not nil, is called each time that a sidecar has taken the
	// functions in.
	OnRegistered func([]*sidecallv1.WorkerAccepted)
	// Logger is that of slog when it is nil.
	Logger *slog.Logger

	functions map[string]function
	declared  []*sidecallv1.WorkerTool
}

const (
	defaultPlaces = 16
	defaultGrace  = 30 * time.Second
)

// Function is what models, and the sidecar, are told of a function.
type Function struct {
	// Name is what models call. Required.
	Name string
	// Description for the model.
	Description string
	// Effect of a call.
	Effect Effect
	// InputSchema is the JSON Schema of the arguments, an object; empty means that of
	// the function's argument. OutputSchema is that of a result which is JSON.
	InputSchema, OutputSchema json.RawMessage
	// Annotations are free hints for whoever lists the tools.
	Annotations map[string]string
	// Sequential: calls of one batch run one after the other.
	Sequential bool
	// Polling: calls with the same arguments and outcome are expected.
	Polling bool
	// FailsCleanly: a call that returns an error has done nothing, unless its context has
	// ended; nothing is said of one that panics. Unsaid, the outcome of one that must not be
	// repeated is unknown then.
	FailsCleanly bool
	// CleanError says the same of some errors: whether the call that returned it has done
	// nothing. nil: of none.
	CleanError func(err error) bool
	// CancelWithCaller: the function undoes what it has begun when its context ends,
	// and that is when its caller leaves.
	CancelWithCaller bool
	// AttemptTimeout is the time for one attempt without Progress, Deadline that for
	// the whole call; 0 means the sidecar's.
	AttemptTimeout, Deadline time.Duration
}

// function is one that is served.
type function func(ctx context.Context, arguments string) (*sidecallv1.WorkerResult, error)

// Add makes a function a tool of a worker. Its argument is a struct, or a map with
// keys of strings: the schema comes from its type (json names; a jsonschema tag is the
// description; omitempty makes it optional), and the arguments of a call fit it. A
// result that is a string is shown as it is, a Reply says more, anything else is JSON.
//
// The error says what keeps the function from being a tool.
func Add[In, Out any](w *Worker, f Function, do func(ctx context.Context, in In) (Out, error)) error {
	if _, twice := w.functions[f.Name]; twice {
		return fmt.Errorf("function %q: there is one of that name", f.Name)
	}
	input, err := schemaOf[In](f)
	if err != nil {
		return fmt.Errorf("function %q: %w", f.Name, err)
	}
	tool := &sidecallv1.WorkerTool{
		Name: f.Name, Description: f.Description, Effect: sidecallv1.Effect(f.Effect), Annotations: f.Annotations,
		InputSchemaJson: string(input), OutputSchemaJson: string(f.OutputSchema),
		Sequential: f.Sequential, Polling: f.Polling, CancelWithCaller: f.CancelWithCaller,
		AttemptTimeout: durationOf(f.AttemptTimeout), Deadline: durationOf(f.Deadline),
	}
	if _, err := proto.Marshal(tool); err != nil { // it is not UTF-8: no registration could be sent
		return fmt.Errorf("function %q: %w", f.Name, err)
	}
	if w.functions == nil {
		w.functions = make(map[string]function)
	}
	w.declared = append(w.declared, tool)
	w.functions[f.Name] = func(ctx context.Context, arguments string) (*sidecallv1.WorkerResult, error) {
		var in In
		if err := json.Unmarshal([]byte(arguments), &in); err != nil {
			return nil, &Failure{Code: "INVALID_ARGS", Message: "the arguments cannot be read: " + err.Error(), NotRun: true}
		}
		out, err := do(ctx, in)
		switch {
		case err == nil:
			return resultOf(out), nil
		case f.FailsCleanly && ctx.Err() == nil, f.CleanError != nil && f.CleanError(err):
			return nil, cleanly(err)
		default:
			return nil, err
		}
	}
	return nil
}

// cleanly is an error of a call that has done nothing. It is not made again by itself,
// unless the function says so: it would fail again.
func cleanly(err error) *Failure {
	failure := Failure{Message: err.Error()}
	if said, ok := errors.AsType[*Failure](err); ok {
		failure = *said
	}
	failure.NotRun, failure.Code = true, cmp.Or(failure.Code, "UNRECOVERABLE")
	return &failure
}

// schemaOf is the schema of a function's arguments.
func schemaOf[In any](f Function) (json.RawMessage, error) {
	if len(f.InputSchema) > 0 {
		return f.InputSchema, nil
	}
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		return nil, fmt.Errorf("its argument has no schema: %w", err)
	}
	if schema.Type != "object" {
		return nil, fmt.Errorf("its argument is a %s: want a struct, or a map with keys of strings", reflect.TypeFor[In]())
	}
	return json.Marshal(schema)
}

func durationOf(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// lasting are the statuses after which it is in vain to come again.
var lasting = map[codes.Code]bool{
	codes.InvalidArgument: true, codes.AlreadyExists: true, codes.NotFound: true, codes.FailedPrecondition: true,
	codes.Unimplemented: true, codes.PermissionDenied: true, codes.Unauthenticated: true,
}

const (
	// againSoon and againLate bound the wait before a sidecar is looked for again.
	againSoon, againLate = 50 * time.Millisecond, 5 * time.Second
)

// Work serves the functions of a worker until ctx ends, which is no error: then the
// calls that it has go on, for its Grace at the most. It ends with ErrClosed when the client is
// closed, and with an error when the sidecar that was launched has ended. It registers again
// whenever another sidecar is there again. An error says that the sidecar refuses the worker, and why;
// nothing of it is registered then.
//
// The same Client may make calls meanwhile, over the same connection.
func (c *Client) Work(ctx context.Context, w *Worker) error {
	if len(w.declared) == 0 {
		return errors.New("the worker has no functions: add one")
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var streams sync.WaitGroup
	defer end()
	defer streams.Wait()
	places := make(chan struct{}, cmp.Or(max(w.MaxInFlight, 0), defaultPlaces))
	for wait := againSoon; ; {
		c.conn.ResetConnectBackoff() // the waiting is done here
		s := newShift(life, w, places)
		over := make(chan error, 1)
		streams.Go(func() { over <- s.run(ctx, sidecallv1.NewWorkerServiceClient(c.conn)) })
		var err error
		select {
		case <-s.goodbye: // it goes on with what it has
		case err = <-over:
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case c.closed.Load():
			return ErrClosed
		case c.ended() != nil:
			return c.ended()
		case lasting[status.Code(err)]:
			return fmt.Errorf("the sidecar refuses the worker %s: %w", w.Name, err)
		case s.registered():
			wait = againSoon
		}
		w.log().Log(ctx, levelOf(err), "looking for a sidecar again", "worker", w.Name, "why", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait/2 + rand.N(wait/2)):
		}
		wait = min(2*wait, againLate)
	}
}

// levelOf is how loudly the end of a stream is told: a sidecar that refuses a worker for now
// may do so for ever, one that is away will be there again.
func levelOf(err error) slog.Level {
	if err == nil || status.Code(err) == codes.Unavailable {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

func (w *Worker) log() *slog.Logger {
	return cmp.Or(w.Logger, slog.Default())
}

func (w *Worker) grace() time.Duration {
	if w.Grace <= 0 {
		return defaultGrace
	}
	return w.Grace
}
