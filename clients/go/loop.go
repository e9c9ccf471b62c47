package sidecall

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// maxBatch is how many calls a request has at most.
	maxBatch = 128
	// patience is how long requests are sent again while the sidecar is away; firstPause
	// and longestPause are between two of them.
	patience     = 30 * time.Second
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
	// maxTurns bounds a loop that sets no other limit.
	maxTurns = 200
	// lastWord is how long the end of a prompt may take to be told.
	lastWord = 2 * time.Second
)

// Answer is what came of a turn.
type Answer struct {
	// Messages are what is to be appended after the message of the assistant, in this
	// order and before any other; none when it calls no tool.
	Messages []json.RawMessage
	// Results are those of its calls, in order.
	Results []*Result
}

// Stop reports that the loop has to end now: the model goes round in circles, and was
// told so.
func (a *Answer) Stop() bool { return slices.ContainsFunc(a.Results, (*Result).GetStop) }

// RequireEscalation reports that a person has to be asked before the model goes on.
func (a *Answer) RequireEscalation() bool {
	return slices.ContainsFunc(a.Results, func(r *Result) bool { return r.GetRecovery().GetRequireEscalation() })
}

// RunTools runs the tools that the message of an assistant calls (see Read), and returns
// what is to be appended after it. of has what its calls share: all but ID, Tool and
// Arguments; its Turn is the provider's id of the message unless it is set. While the
// sidecar is away, the same calls are sent again with the same ids, for 30 s. Calls of a
// message that was cut are answered and not run.
func (c *Client) RunTools(ctx context.Context, message any, of Call) (*Answer, error) {
	turn, err := Read(message)
	if err != nil {
		return nil, err
	}
	return c.runTurn(ctx, &turn, of)
}

func (c *Client) runTurn(ctx context.Context, turn *Turn, of Call) (*Answer, error) {
	if turn.Cut != "" {
		return turn.answer(turn.notRun())
	}
	of.Turn = cmp.Or(of.Turn, turn.ID)
	calls := make([]Call, len(turn.Calls))
	for i, call := range turn.Calls {
		calls[i] = of
		calls[i].ID, calls[i].Tool, calls[i].Arguments = call.ID, call.Tool, call.Arguments
	}
	var results []*Result
	for batch := range slices.Chunk(calls, maxBatch) {
		some, err := insist(ctx, func() ([]*Result, error) { return c.Calls(ctx, batch...) })
		if err != nil {
			return nil, err
		}
		results = append(results, some...)
	}
	return turn.answer(results)
}

func (t *Turn) answer(results []*Result) (*Answer, error) {
	messages, err := t.Answers(results)
	return &Answer{Messages: messages, Results: results}, err
}

// insist asks again, for a while, as long as the sidecar is away: it drains, or is being
// replaced.
func insist[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	end, pause := time.Now().Add(patience), firstPause
	for {
		answer, err := ask()
		if status.Code(err) != codes.Unavailable || time.Now().Add(pause).After(end) {
			return answer, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return answer, err
		case <-timer.C:
		}
		pause = min(2*pause, longestPause)
	}
}

// Instructions is the paragraph of the system prompt that teaches the model what the
// errors of the tools of a profile ask of it.
func (c *Client) Instructions(ctx context.Context, profile string) (string, error) {
	res, err := c.service.GetInstructions(ctx, &sidecallv1.GetInstructionsRequest{Profile: profile})
	return res.GetText(), err
}

// Loop is a loop of a model and its tools for one message of the user.
type Loop struct {
	// Ask asks the model: it is given all messages so far, and returns what Read reads.
	Ask func(ctx context.Context, messages []json.RawMessage) (message any, err error)
	// Of is what all calls share. Its Prompt is made up when it is empty; its Turn does not
	// count.
	Of Call
	// MaxTurns bounds how often the model is asked; 200 when it is 0.
	MaxTurns int
	// Escalate is given what the tools answered where a person has to be asked before the
	// model goes on, and says whether it may. Without it the loop ends.
	Escalate func(ctx context.Context, answer *Answer) (goOn bool, err error)
}

// Ended is how a loop has ended.
type Ended struct {
	// Messages are those that it was given, and what came to them.
	Messages []json.RawMessage
	// Reason is why: end_turn; max_tokens or refusal, of the provider; loop_detected, when
	// the sidecar said stop; escalation; budget_exceeded; max_turns; error.
	Reason string
	// Last is the last message of the model.
	Last any
	// Prompt is the one that the calls belong to.
	Prompt string
	// Turns is how often the model was asked, Tokens what it used, as far as it says.
	Turns  int
	Tokens int64
}

// Run asks the model, runs its tools, and asks again until it calls none, its budget is
// used up, or the sidecar says stop. The messages are of one provider, as JSON or what
// marshals to it. With an error it returns how far it came.
func (l Loop) Run(ctx context.Context, c *Client, messages ...any) (*Ended, error) {
	ended := &Ended{Reason: "error", Prompt: l.Of.Prompt}
	if ended.Prompt == "" {
		ended.Prompt = uuid.NewString()
	}
	l.Of.Prompt = ended.Prompt
	for _, m := range messages {
		text, err := jsonOf(m)
		if err != nil {
			return ended, fmt.Errorf("a message: %w", err)
		}
		ended.Messages = append(ended.Messages, text)
	}
	err := l.run(ctx, c, ended)
	if err != nil && ctx.Err() != nil {
		ended.Reason = "cancelled"
	}
	c.endPrompt(ctx, l.Of, ended.Reason)
	return ended, err
}

// endPrompt tells the sidecar, for its figures alone: whoever cannot be told does not
// hold up the caller, and the prompt ends by itself later.
func (c *Client) endPrompt(ctx context.Context, of Call, reason string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
	defer cancel()
	_, _ = sidecallv1.NewConversationServiceClient(c.conn).EndPrompt(ctx, &sidecallv1.EndPromptRequest{
		ConversationId: of.Conversation, PromptId: of.Prompt, Profile: of.Profile, ExitReason: reason,
	})
}

func (l *Loop) run(ctx context.Context, c *Client, ended *Ended) (err error) {
	toldToWrapUp := false
	for most := cmp.Or(l.MaxTurns, maxTurns); ended.Turns < most; {
		if ended.Last, err = l.Ask(ctx, slices.Clone(ended.Messages)); err != nil {
			return err
		}
		ended.Turns++
		turn, err := Read(ended.Last)
		if err != nil {
			return err
		}
		ended.Tokens += turn.Tokens
		of := l.Of
		// A message without an id is known by its place among all: some providers start their
		// ids of calls again in every turn, and a loop that goes on later comes to the same.
		of.TokensUsed, of.Turn = ended.Tokens, cmp.Or(turn.ID, fmt.Sprintf("%s/%d", ended.Prompt, len(ended.Messages)))
		ended.Messages = append(ended.Messages, turn.Messages...)
		if len(turn.Calls) == 0 {
			ended.Reason = exitReason(turn.Reason)
			return nil
		}
		answer, err := c.runTurn(ctx, &turn, of)
		if err != nil {
			return err
		}
		ended.Messages = append(ended.Messages, answer.Messages...)
		switch spent := answer.spent(); {
		case answer.Stop():
			ended.Reason = "loop_detected"
			return nil
		case spent && toldToWrapUp:
			ended.Reason = "budget_exceeded"
			return nil
		default:
			toldToWrapUp = toldToWrapUp || spent
		}
		if goOn, err := l.mayGoOn(ctx, answer); err != nil || !goOn {
			if err == nil {
				ended.Reason = "escalation"
			}
			return err
		}
	}
	ended.Reason = "max_turns"
	return nil
}

func (l *Loop) mayGoOn(ctx context.Context, answer *Answer) (bool, error) {
	switch {
	case !answer.RequireEscalation():
		return true, nil
	case l.Escalate == nil:
		return false, nil
	default:
		return l.Escalate(ctx, answer)
	}
}

// spent reports that nothing ran because the budget of the prompt is used up.
func (a *Answer) spent() bool {
	return !slices.ContainsFunc(a.Results, func(r *Result) bool { return r.GetError().GetCode() != "BUDGET_EXCEEDED" })
}

// exitReason is what a provider calls the end of a message.
func exitReason(said string) string {
	switch said {
	case "max_tokens", "length", "max_output_tokens", "model_context_window_exceeded":
		return "max_tokens"
	case "refusal", "content_filter":
		return "refusal"
	default:
		return "end_turn"
	}
}
