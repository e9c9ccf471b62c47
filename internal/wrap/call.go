package wrap

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/mcptool"
	"github.com/sidecall/sidecall/internal/failpoint"
	"github.com/sidecall/sidecall/internal/identity"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// callParams are those of tools/call that are looked at.
type callParams struct {
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
	Meta      jsontext.Value `json:"_meta"`
	State     jsontext.Value `json:"requestState"`
	Responses jsontext.Value `json:"inputResponses"`
}

// round is what tells a round of a call from the others: what the client sends back.
func (p *callParams) round() json.RawMessage {
	if p.State == nil && p.Responses == nil {
		return nil
	}
	if p.State == nil { // a server that needs none
		return json.RawMessage(p.Responses)
	}
	return json.RawMessage(p.State)
}

// exchange travels in the context of a call, down to Invoke, and brings back what the server
// answered to its last attempt.
type exchange struct {
	params object
	heard  *mcptool.Relayed // nil while it has not answered
}

type exchangeKey struct{}

// asked is a call of the client as it was read.
type asked struct {
	callParams

	id     json.RawMessage
	says   identity.Call
	params object
}

// readCall reads a call. The error says to the client what is wrong with its request.
func readCall(m message) (a asked, err error) {
	a.id = json.RawMessage(m.ID)
	if err := unmarshal(m.Params, &a.callParams); err != nil || a.Name == "" {
		return a, errors.New("tools/call has the name of a tool, and an object of arguments")
	}
	if a.says, err = identity.Of(json.RawMessage(a.Meta)); err != nil {
		return a, err
	}
	a.says = a.says.Round(a.round())
	if string(a.Arguments) == "null" {
		a.Arguments = nil
	}
	a.params, err = readObject(m.Params)
	return a, err
}

// call makes a call of the client through the sidecar.
func (r *Relay) call(ctx context.Context, executor Executor, text []byte, m message) {
	a, err := readCall(m)
	if err != nil {
		r.refuse(a.id, codeInvalidParams, err.Error())
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	if !r.calls.begin(string(a.id), cancel) {
		cancel()
		r.refuse(a.id, codeInvalidRequest, "the id is that of a call in flight, or the wrapper is about to end")
		return
	}
	go func() {
		defer r.calls.Done()
		defer cancel()
		r.tools.known(ctx, a.Name)
		if a.Name == output.ToolName && r.tools.readOutputIsTheirs() {
			r.calls.answer(string(a.id))
			r.pass(ctx, text, m)
			return
		}
		r.execute(ctx, executor, a)
	}()
}

// execute has the sidecar make a call, and answers it unless the client has cancelled it.
func (r *Relay) execute(ctx context.Context, executor Executor, a asked) {
	says, on := r.named(a.says), &exchange{params: a.params}
	res := executor.Execute(context.WithValue(ctx, exchangeKey{}, on), r.Tenant, &sidecallv1.ExecuteToolStreamRequest{
		Call: &sidecallv1.ExecuteToolRequest{
			ToolUseId: says.ToolUse, ConversationId: says.Conversation, TurnId: says.Turn, PromptId: says.Prompt,
			ToolName: executor.Named(r.Name, a.Name), ArgumentsJson: string(a.Arguments),
		},
		Mcp: &sidecallv1.McpRound{RequestState: string(a.State), InputResponsesJson: string(a.Responses)},
	})
	if r.calls.answer(string(a.id)) {
		failpoint.Hit(failpoint.ResultUnsent)
		r.write(r.tell(a.id, a.Name, res, on.heard))
		failpoint.Hit(failpoint.ResultSent)
	}
}

// named is a call that has an identity: of one that says none, one that nobody else has.
func (r *Relay) named(c identity.Call) identity.Call {
	if c.ToolUse != "" {
		return c
	}
	r.nameless.Do(func() {
		r.Log.Warn("the client says no id of its calls (_meta, see docs/wrap.md): one that it sends again is another call")
	})
	c.ToolUse = "wrap-" + rand.Text()
	return c
}

// Invoke implements backend.Backend: one tools/call. What the client said beside the arguments
// goes on as it came; the server gets the idempotency key beside it.
func (r *Relay) Invoke(ctx context.Context, call backend.Invocation) (tool.Reply, *tool.Failure) {
	on, ok := ctx.Value(exchangeKey{}).(*exchange)
	if !ok {
		on = &exchange{params: object{{"name", marshal(call.Target)}}} // a call of the sidecar's own
	}
	on.heard = nil
	params, err := on.upstream(&call)
	if err != nil {
		return tool.Reply{}, &tool.Failure{Code: tool.CodeInternal, Evidence: tool.NotExecuted, ErrorType: "not_sent", Err: err}
	}
	s := r.server(ctx)
	if s == nil {
		f := mcptool.Unanswered(ctx, false, errDown)
		f.RetryAfter = restartBase
		return tool.Reply{}, f
	}
	id := r.ids.next()
	answer, forget := s.await(id)
	defer forget()
	defer s.listen(params.get("_meta"), call.Progress)()
	failpoint.Hit(failpoint.RequestUnsent)
	sent, err := s.Send(ctx, request(id, methodCall, params.text()), leaving{call.Right})
	if mcptool.Withheld(err) {
		return tool.Reply{}, backend.LeaseLost()
	}
	if err != nil {
		return tool.Reply{}, mcptool.Unanswered(ctx, sent, err)
	}
	heard, failure := s.wait(ctx, id, answer)
	if failure != nil {
		return tool.Reply{}, failure
	}
	failpoint.Hit(failpoint.ResponseRead)
	if heard.Said() {
		on.heard = &heard
	}
	return reply(ctx, heard, call)
}

// leaving is the right to send a call, which proofs may kill this process after it was asked for.
type leaving struct{ of backend.Right }

// Held implements backend.Right.
func (l leaving) Held() bool {
	held := l.of == nil || l.of.Held()
	failpoint.Hit(failpoint.RequestLeaving)
	return held
}

// wait waits for the answer to a call that was sent. The server is told of one that has ended without
// it: what was cut off here may go on there.
func (s *server) wait(ctx context.Context, id string, answer <-chan mcptool.Relayed) (mcptool.Relayed, *tool.Failure) {
	var err error
	select {
	case heard := <-answer:
		if !heard.Said() && ctx.Err() != nil {
			s.cancelled(id)
		}
		return heard, nil
	case <-ctx.Done():
		s.cancelled(id)
		err = context.Cause(ctx)
	case <-s.silent:
		err = errEnded
	}
	select {
	case heard := <-answer: // with its last words
		return heard, nil
	default:
		return mcptool.Relayed{}, mcptool.Unanswered(ctx, true, err)
	}
}

// cancelled tells the server that nobody waits for a call any more.
func (s *server) cancelled(id string) {
	s.tell(note(methodCancelled, map[string]string{"requestId": id, "reason": "nobody waits for it any more"}))
}

// reply reads what the server answered. An answer that is another step of the protocol (a question
// to the client, the handle of a task) is what the call is answered, and is recorded as such.
func reply(ctx context.Context, heard mcptool.Relayed, call backend.Invocation) (tool.Reply, *tool.Failure) {
	read, failure := heard.Read(ctx, call)
	if !mcptool.IsOtherResult(failure) {
		return read, failure
	}
	read = tool.Reply{Text: []byte("The server goes on with another step of the protocol.")}
	if len(heard.Result) <= maxStep {
		read.InputRequired = json.RawMessage(strings.ToValidUTF8(string(heard.Result), "\uFFFD"))
	}
	return read, nil
}

// maxStep bounds what is recorded of such an answer, in bytes.
const maxStep = 1 << 20

// upstream are the parameters for the server: those of the client, with the key, and with the
// arguments of the call where those are others (references that were resolved).
func (on *exchange) upstream(call *backend.Invocation) (object, error) {
	params := on.params
	if !same(params.get("arguments"), call.Args) {
		params = params.set("arguments", jsontext.Value(call.Args))
	}
	meta, err := readObject(params.get("_meta"))
	if err != nil {
		return nil, fmt.Errorf("_meta: %w", err)
	}
	return params.set("_meta", meta.set(identity.Key, marshal(call.IdempotencyKey)).text()), nil
}

// same reports whether arguments, as they were sent, are those that canonical text says.
func same(sent jsontext.Value, canonical []byte) bool {
	if len(sent) == 0 || string(sent) == "null" {
		return string(canonical) == "{}"
	}
	args, wrong := schema.ParseArgs("", string(sent))
	if wrong != nil {
		return false
	}
	own, err := schema.Canonical(args)
	return err == nil && bytes.Equal(own, canonical)
}
