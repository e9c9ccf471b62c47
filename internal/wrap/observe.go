package wrap

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/backend/mcptool"
	"github.com/sidecall/sidecall/internal/observed"
	"github.com/sidecall/sidecall/internal/schema"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// A wrapper that observes passes calls as it passes everything. What it writes down of one it finds
// out when the server has answered.

// observe passes a call, and writes it down when it has ended.
func (r *Relay) observe(ctx context.Context, executor Executor, text []byte, m message) {
	began := time.Now()
	params := m.Params.Clone()
	s := r.server(ctx)
	if s == nil || !r.calls.Enter() {
		r.pass(ctx, text, m)
		return
	}
	s.pass(text, m.ID, passing{method: methodCall, heard: func(answer *mcptool.Relayed) {
		took := time.Since(began)
		go func() { // the answer is on its way already
			defer r.calls.Done()
			r.Observe.Add(r.observed(ctx, executor, params, answer, began, took))
		}()
	}})
}

// observed is what is written down of a call. answer is nil where there was none.
func (r *Relay) observed(ctx context.Context, executor Executor, params []byte, answer *mcptool.Relayed, began time.Time, took time.Duration) observed.Call {
	asked, _ := readCall(message{Params: params}) // what cannot be read was the server's to judge
	says := asked.says
	r.tools.known(ctx, asked.Name)
	name := executor.Named(r.Name, asked.Name)
	c := observed.Call{
		At: began, Took: took, Server: strings.TrimPrefix(r.Tenant, "wrap "), Tool: asked.Name, Effect: executor.Effect(name).String(),
		ID: says.ToolUse, Conversation: says.Conversation, Turn: says.Turn, Prompt: says.Prompt,
		Same: observed.Digest([]byte(asked.Name), arguments(&asked.callParams)), Shown: r.Shown,
	}
	c.Ended, c.Result, c.Chars = ended(answer)
	res := executor.Execute(ctx, r.Tenant, &sidecallv1.ExecuteToolStreamRequest{Call: &sidecallv1.ExecuteToolRequest{
		ToolUseId: "observed", ToolName: name, ArgumentsJson: string(asked.Arguments), ValidateOnly: true,
	}})
	if e := res.GetError(); e != nil {
		c.Wrong = &observed.Wrong{Code: e.GetCode(), Field: e.GetField(), Constraint: e.GetConstraint()}
	}
	return c
}

// arguments are those of a call in one spelling, as far as they have one.
func arguments(asked *callParams) []byte {
	if args, wrong := schema.ParseArgs(asked.Name, string(asked.Arguments)); wrong == nil {
		if canonical, err := schema.Canonical(args); err == nil {
			return canonical
		}
	}
	return asked.Arguments
}

// ended says how a call has ended, and how much text its result has.
func ended(answer *mcptool.Relayed) (how, result string, chars int) {
	switch {
	case answer == nil:
		return observed.Lost, "", 0
	case answer == givenUp:
		return observed.Cancelled, "", 0
	case len(answer.Result) == 0:
		return observed.Refused, observed.Digest(answer.Raw), 0
	}
	var says struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	}
	_ = json.Unmarshal(answer.Result, &says) // as far as it is one
	for _, block := range says.Content {
		chars += utf8.RuneCountInString(block.Text)
	}
	how = observed.OK
	if says.IsError {
		how = observed.Failed
	}
	return how, observed.Digest(answer.Result), chars
}
