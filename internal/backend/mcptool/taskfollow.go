package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// pollUsual is how long it takes until a server is asked again that does not say.
	pollUsual = time.Second
	// pollAtLeast and pollAtMost bound what a server says: a task that is heard of more seldom
	// would look as if it hung.
	pollAtLeast = 250 * time.Millisecond
	pollAtMost  = 10 * time.Second
	// pollTime is how long a server may take to say how a task is.
	pollTime = 30 * time.Second
	// ttlSpare is how much longer than its call a task is to be kept.
	ttlSpare = time.Minute
	// cancelTime bounds the attempt to cancel a task whose call has ended.
	cancelTime = 2 * time.Second
)

// taskParams are those of each method that is about a task.
type taskParams struct {
	mcp.ParamsBase
	TaskID         string                     `json:"taskId"`
	InputResponses map[string]json.RawMessage `json:"inputResponses,omitempty"`
}

// unread is a result of which the SDK sees nothing.
type unread struct{ mcp.ResultBase }

// asTask are the parameters of a call that is to be a task, in 2025-11-25.
type asTask struct {
	*mcp.CallToolParams
	Task struct {
		TTL int64 `json:"ttl,omitempty"` // in milliseconds
	} `json:"task"`
}

// speaksTasks lets the SDK send what is about tasks, which it does not know.
func speaksTasks(client *mcp.Client, s *session) error {
	for _, method := range []string{methodTaskGet, methodTaskResult, methodTaskUpdate, methodTaskCancel} {
		if err := mcp.AddSendingCustomMethod[*taskParams, *unread](client, method); err != nil {
			return err
		}
	}
	client.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if call, ok := req.GetParams().(*mcp.CallToolParams); ok && s.mustBeTask(call.Name) {
				params := &asTask{CallToolParams: call}
				if end, ok := ctx.Deadline(); ok {
					params.Task.TTL = (time.Until(end) + ttlSpare).Milliseconds()
				}
				req = &mcp.ClientRequest[*asTask]{Session: s.client, Params: params}
			}
			return next(ctx, method, req)
		}
	})
	return nil
}

// mustBeTask reports whether a tool can be called in no other way. One that leaves it open is
// called plainly. What a server says of its capabilities is not asked for: one that has none
// overlooks the wish.
func (s *session) mustBeTask(name string) bool {
	tools := s.taskTools.Load()
	return !s.modern() && tools != nil && (*tools)[name]
}

// following is a task that is followed to its end.
type following struct {
	task

	b       *Backend
	call    *backend.Invocation
	hearing *hearing
	// settled: it is of 2025-11-25.
	settled bool
	// since is when its handle came.
	since time.Time
	// answers are those to what it has asked, by their names.
	answers map[string]json.RawMessage
}

// follow follows the task of a call to its end, or to that of the call. All of it only asks, and so
// is done again after a lost connection.
func (b *Backend) follow(ctx context.Context, h *hearing, raw json.RawMessage) (tool.Reply, *tool.Failure) {
	first, settled, err := handle(raw)
	if err != nil {
		return tool.Reply{}, lostTask("its handle cannot be used", err)
	}
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.closing, func() { cancel(errClosed) })()
	f := &following{task: first, b: b, call: h.call, hearing: h, settled: settled, since: time.Now(), answers: make(map[string]json.RawMessage)}
	for {
		reply, failure, over := f.step(own)
		if over {
			return reply, failure
		}
		pause(own, f.wait())
		switch {
		case own.Err() != nil && f.ended():
			return f.settledOutcome(answer{err: context.Cause(own)}, f.call, f.expired())
		case ctx.Err() != nil:
			f.cancel(ctx)
			return tool.Reply{}, ended(ctx, tool.Ambiguous)
		case own.Err() != nil:
			return tool.Reply{}, lost(context.Cause(own))
		case f.ended(): // only its result is missing
		default:
			if failure := f.look(own); failure != nil {
				return tool.Reply{}, failure
			}
		}
	}
}

// step does what the status of the task is for; over when nothing more is to come.
func (f *following) step(ctx context.Context) (reply tool.Reply, failure *tool.Failure, over bool) {
	switch {
	case f.ended() && (!f.settled || f.Status == taskCancelled):
		reply, failure = f.outcome(f.call, f.expired())
		return reply, failure, true
	case f.ended():
		a := f.ask(ctx, methodTaskResult, pollTime)
		if a.outcome != refused && passing(a) {
			return reply, nil, false
		}
		reply, failure = f.settledOutcome(a, f.call, f.expired())
		return reply, failure, true
	case f.Status == taskInputRequired && f.settled:
		// The server asks while this waits. A result is that of a task that has ended meanwhile.
		if a := f.ask(ctx, methodTaskResult, 0); a.outcome == resulted {
			reply, failure = f.settledOutcome(a, f.call, false)
			return reply, failure, true
		}
	case f.Status == taskInputRequired:
		failure = f.answer(ctx)
		return reply, failure, failure != nil
	}
	return reply, nil, false
}

// look asks how the task is.
func (f *following) look(ctx context.Context) *tool.Failure {
	a := f.ask(ctx, methodTaskGet, pollTime)
	switch {
	case ctx.Err() != nil || passing(a):
		return nil //nolint:nilerr // the end of ctx is that of the loop
	case a.outcome == tooLarge:
		return lostTask(fmt.Sprintf("what its server says of it is too large to be read (at least %d bytes)", a.size), nil)
	case a.rpc != nil:
		lost := lostTask("its server says that it does not know what became of it", a.rpc)
		lost.Message = clip(a.rpc.Message)
		return lost
	case a.outcome != resulted:
		return lostTask("what its server says of it cannot be read", a.err)
	}
	next, err := readTask(a.result)
	switch {
	case err != nil:
		return lostTask("what its server says of it cannot be read", err)
	case next.ID != f.ID:
		return lostTask("its server tells of another one", nil)
	case !next.ended() && len(a.result) > maxQuestion:
		return lostTask(fmt.Sprintf("its server says more than %d bytes of it before its end", maxQuestion), nil)
	}
	f.task = next
	if f.call.Progress != nil {
		f.call.Progress(backend.Sign{Note: f.says()})
	}
	return nil
}

// passing reports an answer that says nothing of the task, so that it may be asked for again.
func passing(a answer) bool {
	switch a.outcome {
	case unanswered, brokenOff:
		return true
	case refused:
		return a.rpc.Code != jsonrpc.CodeInvalidParams && a.rpc.Code != jsonrpc.CodeMethodNotFound && a.rpc.Code != jsonrpc.CodeInvalidRequest
	case httpError:
		return a.session != sessionKept || mayPass(a.status)
	case resulted, tooLarge, notMCP:
	}
	return false
}

// mayPass reports a status of HTTP that says nothing of what was asked for, which may be asked for again.
func mayPass(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// expired reports that a server may have forgotten the task.
func (f *following) expired() bool { return f.ttl() > 0 && time.Since(f.since) >= f.ttl() }

// wait is how long it takes until the task is asked for again: as its server says, within bounds,
// and before the server may forget it.
func (f *following) wait() time.Duration {
	wait := time.Duration(max(f.Poll, f.PollMs))
	if wait == 0 {
		wait = pollUsual
	}
	if ttl := f.ttl(); ttl > 0 && !f.expired() {
		wait = min(wait, (ttl-time.Since(f.since))/2)
	}
	return min(max(wait, pollAtLeast), pollAtMost)
}

// ask sends one request about the task. most bounds the time for it; 0 is as long as the call has.
func (f *following) ask(ctx context.Context, method string, most time.Duration) answer {
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	params := &taskParams{TaskID: f.ID}
	if method == methodTaskUpdate {
		params.InputResponses = f.answers
	}
	return f.b.askOfTask(ctx, method, params, f.hearing, f.call.Memory)
}

// cancel tells the server that the call has ended, and waits for nothing.
func (f *following) cancel(ctx context.Context) {
	if !f.b.running.Enter() {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	go func() {
		defer f.b.running.Done()
		defer stop()
		f.b.askOfTask(ctx, methodTaskCancel, &taskParams{TaskID: f.ID}, nil, nil)
	}()
}

// askOfTask sends one request about a task, on whichever session there is.
func (b *Backend) askOfTask(ctx context.Context, method string, params *taskParams, hearing *hearing, memory backend.Memory) answer {
	s, failure := b.state.acquire(ctx)
	if failure != nil {
		return answer{err: failure.Err}
	}
	defer s.leave()
	if hearing != nil {
		hearing.at(s)
	}
	c := &capture{memory: memory}
	if s.modern() {
		c.name = params.TaskID
	}
	a, err := s.exchange(ctx, c, func(ctx context.Context) error {
		_, err := mcp.CallCustomMethod[*taskParams, *unread](ctx, s.client, method, params)
		return err
	})
	if a.outcome == unanswered && a.err == nil {
		a.err = err
	}
	return a.answer
}
