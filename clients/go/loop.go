package sidecall

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// maxTurns bounds a loop that sets no other limit.
	maxTurns = 200
	// lastWord is how long the end of a prompt may take to be told.
	lastWord = 2 * time.Second
)

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
	// Of is what all calls share. Its Prompt, when it is empty, is that of an unfinished
	// conversation that goes on, else made up; its Turn does not count.
	Of Call
	// Keep is the conversation that the sidecar keeps of it, message by message; nil for
	// none. The loop first makes the calls in it that have no result, with the ids that they
	// had; the messages that Run is given come behind what is kept. So a loop that was
	// killed anywhere goes on when it is run without any.
	Keep *Conversation
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
	ended := &Ended{Reason: "error"}
	err := l.begin(ctx, ended, messages)
	if ended.Prompt = l.Of.Prompt; err != nil {
		return ended, err
	}
	if l.Keep != nil && len(messages) == 0 && l.Keep.ended() {
		ended.Reason = exitReason("")
		return ended, nil
	}
	err = l.run(ctx, c, ended)
	if err != nil && ctx.Err() != nil {
		ended.Reason = "cancelled"
	}
	c.endPrompt(ctx, l.Of, ended.Reason)
	return ended, err
}

// begin brings together the messages that the loop begins with, and the prompt that it is
// in: what is unfinished goes on in its own, and the messages begin another.
func (l *Loop) begin(ctx context.Context, ended *Ended, messages []any) error {
	named := l.Of.Prompt != ""
	l.Of.Prompt = cmp.Or(l.Of.Prompt, uuid.NewString())
	if l.Keep != nil {
		l.Of.Conversation = l.Keep.ID
		if _, err := l.Keep.Resume(ctx, l.Of); err != nil {
			return err
		}
		if named || len(messages) > 0 || l.Keep.Prompt == "" {
			l.Keep.Prompt = l.Of.Prompt
		}
		l.Of.Prompt = l.Keep.Prompt
		if err := l.Keep.append(ctx, "", false, messages...); err != nil {
			return err
		}
		ended.Messages = slices.Clone(l.Keep.Messages)
		return nil
	}
	if l.Of.Conversation == "" {
		return ErrNoConversation
	}
	for _, m := range messages {
		text, err := jsonOf(m)
		if err != nil {
			return fmt.Errorf("a message: %w", err)
		}
		ended.Messages = append(ended.Messages, text)
	}
	return nil
}

// add takes in messages, once they are kept; open says that they have calls to be made.
func (l *Loop) add(ctx context.Context, ended *Ended, turn string, open bool, messages []json.RawMessage) error {
	if l.Keep != nil {
		if err := l.Keep.append(ctx, turn, open, anyOf(messages)...); err != nil {
			return err
		}
	}
	ended.Messages = append(ended.Messages, messages...)
	return nil
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
		answer, err := l.take(ctx, c, ended, &turn, of)
		if err != nil {
			return err
		}
		if len(turn.Calls) == 0 {
			ended.Reason = exitReason(turn.Reason)
			return nil
		}
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

// take takes in a message of the model, makes its calls, and takes in what answers them.
// The message is kept before anything is run, so that whoever goes on finds the calls.
// Those of a message that was cut are not to be run: they are kept with their answers, or
// whoever goes on would run them.
func (l *Loop) take(ctx context.Context, c *Client, ended *Ended, turn *Turn, of Call) (*Answer, error) {
	if turn.Cut != "" {
		answer, err := turn.answer(turn.notRun())
		if err != nil {
			return nil, err
		}
		return answer, l.add(ctx, ended, of.Turn, false, slices.Concat(turn.Messages, answer.Messages))
	}
	if err := l.add(ctx, ended, of.Turn, len(turn.Calls) > 0, turn.Messages); err != nil || len(turn.Calls) == 0 {
		return &Answer{}, err
	}
	answer, err := c.runTurn(ctx, turn, of)
	if err != nil {
		return nil, err
	}
	return answer, l.add(ctx, ended, "", false, answer.Messages)
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
