package mcptool

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// inputRequest is what a task asks of the client.
type inputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// answer has the caller answer what the task asks, each once, and hands all of it to the server.
// Where nobody can be asked the task is given up, which would wait for ever.
func (f *following) answer(ctx context.Context) *tool.Failure {
	var asked map[string]inputRequest
	if err := json.Unmarshal(f.InputRequests, &asked); err != nil {
		return f.unasked(ctx, err)
	}
	for name, q := range asked {
		if f.answers[name] != nil {
			continue
		}
		if f.call.Caller == nil || len(f.answers) >= maxAsked || !slices.Contains(f.b.cfg.HandsOn, handsOn[q.Method]) {
			return f.unasked(ctx, errNobodyToAsk)
		}
		said, err := f.call.Caller.Asked(ctx, q.Method, q.Params)
		if err != nil {
			return f.unasked(ctx, err)
		}
		f.answers[name] = said
	}
	f.ask(ctx, methodTaskUpdate, pollTime) // one that does not arrive is sent again, as the task asks again
	return nil
}

// unasked is a task that asks for what nobody gives.
func (f *following) unasked(ctx context.Context, err error) *tool.Failure {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // its end is that of the loop
	}
	f.cancel(ctx)
	word := backend.Invocation{Effect: f.call.Effect} // how cleanly the tool fails by itself says nothing of this end
	failure := word.OwnWord(inputRequired())
	failure.Err = err
	return failure
}

// withTasks are the capabilities of a client, to whose server this backend says that it follows
// tasks, whether the client does or not.
func withTasks(capabilities json.RawMessage) (map[string]json.RawMessage, error) {
	var can, extensions map[string]json.RawMessage
	if err := json.Unmarshal(capabilities, &can); err != nil {
		return nil, err
	}
	if can == nil {
		can = make(map[string]json.RawMessage)
	}
	if json.Unmarshal(can["extensions"], &extensions) != nil || extensions == nil {
		extensions = make(map[string]json.RawMessage) // what is no object says nothing
	}
	extensions[tasksExtension] = nothing
	encoded, err := json.Marshal(extensions)
	can["extensions"] = encoded
	return can, err
}
