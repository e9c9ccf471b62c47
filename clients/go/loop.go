package sidecall

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// maxTurns bounds a loop that sets no other limit.
	maxTurns = 200
	// lastWord is how long the end of a prompt may take to be told.
	lastWord = 2 * time.Second
)

// Instructions is the paragraph of the system prompt that teaches the model what the
// errors of the tools of a profile ask of it. While the sidecar is away it is asked again, for
// 30 s.
func (c *Client) Instructions(ctx context.Context, profile string) (string, error) {
	res, err := insist(ctx, c, func() (*sidecallv1.GetInstructionsResponse, error) {
		return c.service.GetInstructions(ctx, &sidecallv1.GetInstructionsRequest{Profile: profile})
	})
	return res.GetText(), err
}

// Ask asks the model: it is given all messages so far, and returns what RunTools takes.
type Ask func(ctx context.Context, messages []json.RawMessage) (message any, err error)

// LoopOptions say how a loop of a model and its tools is run for one message of the user.
type LoopOptions struct {
	// Of is what all calls share. Its Prompt, when it is empty, is that of an unfinished
	// conversation that goes on, else made up; its Turn does not count.
	Of Call
	// Keep is the conversation that the sidecar keeps of it, message by message; nil for
	// none. The loop first makes the calls in it that have no result, with the ids that they
	// had; the messages that it is given come behind what is kept. So a loop that was
	// killed anywhere goes on when it is run without any.
	Keep *Conversation
	// MaxTurns bounds how often the model is asked; 200 when it is 0.
	MaxTurns int
	// OnEscalation is given what the tools answered where a person has to be asked before
	// the model goes on, and says whether it may. Without it the loop ends.
	OnEscalation func(ctx context.Context, answered *ToolMessages) (goOn bool, err error)
	// OnHeld is given what was answered where calls wait for a person, waits, and says whether
	// to make them again. Without it the loop ends, and none of the answers is kept: one with
	// Keep goes on from there.
	OnHeld func(ctx context.Context, answered *ToolMessages) (again bool, err error)
}

// Loop is how a loop has ended.
type Loop struct {
	// Messages are those that it was given, and what came to them.
	Messages []json.RawMessage
	// ExitReason is why: end_turn; max_tokens or refusal, of the provider; loop_detected,
	// when the sidecar said stop; escalation; held, when calls wait for a person: what
	// answers them is not among Messages; budget_exceeded; max_turns; error; cancelled.
	ExitReason string
	// Message is the last one of the model.
	Message any
	// PromptID is the prompt that the calls belong to.
	PromptID string
	// Turns is how often the model was asked, Tokens what it used, as far as it says.
	Turns  int
	Tokens int64
	// Results are those of the last turn that called tools.
	Results []*Result
}

// RunLoop asks the model, runs its tools, and asks again until it calls none, its budget is
// used up, or the sidecar says stop. The messages are of one provider, as JSON or what
// marshals to it. With an error it returns how far it came.
func (c *Client) RunLoop(ctx context.Context, ask Ask, messages []any, options LoopOptions) (*Loop, error) {
	l := &loop{LoopOptions: options, ask: ask, client: c, Loop: Loop{ExitReason: "error"}}
	err := l.begin(ctx, messages)
	if l.PromptID = l.Of.PromptID; err != nil || l.ExitReason == heldUp {
		return &l.Loop, err
	}
	if l.Keep != nil && len(messages) == 0 && l.Keep.ended() {
		l.ExitReason = "end_turn"
		return &l.Loop, nil
	}
	err = l.run(ctx)
	if err != nil && ctx.Err() != nil {
		l.ExitReason = "cancelled"
	}
	if l.ExitReason != heldUp { // its prompt has not ended
		c.endPrompt(ctx, l.Of, l.ExitReason)
	}
	return &l.Loop, err
}

// loop is one that is run.
type loop struct {
	LoopOptions
	Loop

	ask    Ask
	client *Client
}

// begin brings together the messages that the loop begins with, and the prompt that it is
// in: what is unfinished goes on in its own, and the messages begin another.
func (l *loop) begin(ctx context.Context, messages []any) error {
	named := l.Of.PromptID != ""
	l.Of.PromptID = cmp.Or(l.Of.PromptID, rand.Text())
	if l.Keep != nil {
		l.Of.ConversationID = l.Keep.ID
		answered, err := l.untilDecided(ctx, func() (*ToolMessages, error) { return l.Keep.Resume(ctx, l.Of) })
		if err != nil {
			return err
		}
		if len(answered.Held()) > 0 {
			l.Results, l.ExitReason, l.Messages = answered.Results, heldUp, slices.Clone(l.Keep.Messages)
			l.Of.PromptID = l.Keep.PromptID
			return nil
		}
		if named || len(messages) > 0 || l.Keep.PromptID == "" {
			l.Keep.PromptID = l.Of.PromptID
		}
		l.Of.PromptID = l.Keep.PromptID
		if err := l.Keep.append(ctx, "", false, messages...); err != nil {
			return err
		}
		l.Messages = slices.Clone(l.Keep.Messages)
		return nil
	}
	if l.Of.ConversationID == "" {
		return ErrNoConversation
	}
	for _, m := range messages {
		text, err := jsonOf(m)
		if err != nil {
			return fmt.Errorf("a message: %w", err)
		}
		l.Messages = append(l.Messages, text)
	}
	return nil
}

// add takes in messages, once they are kept; open says that they have calls to be made.
func (l *loop) add(ctx context.Context, turn string, open bool, messages []json.RawMessage) error {
	if l.Keep != nil {
		if err := l.Keep.append(ctx, turn, open, anyOf(messages)...); err != nil {
			return err
		}
	}
	l.Messages = append(l.Messages, messages...)
	return nil
}

// endPrompt tells the sidecar, for its figures alone: whoever cannot be told does not
// hold up the caller, and the prompt ends by itself later.
func (c *Client) endPrompt(ctx context.Context, of Call, reason string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
	defer cancel()
	_, _ = sidecallv1.NewConversationServiceClient(c.conn).EndPrompt(ctx, &sidecallv1.EndPromptRequest{
		ConversationId: of.ConversationID, PromptId: of.PromptID, Profile: of.Profile, ExitReason: reason,
	})
}

func (l *loop) run(ctx context.Context) (err error) {
	toldToWrapUp := false
	for most := cmp.Or(l.MaxTurns, maxTurns); l.Turns < most; {
		if l.Message, err = l.ask(ctx, slices.Clone(l.Messages)); err != nil {
			return err
		}
		l.Turns++
		answered, err := l.turn(ctx)
		if err != nil || answered == nil {
			return err
		}
		l.Results = answered.Results
		switch {
		case answered.Stop:
			l.ExitReason = "loop_detected"
			return nil
		case answered.spent && toldToWrapUp:
			l.ExitReason = "budget_exceeded"
			return nil
		}
		toldToWrapUp = toldToWrapUp || answered.spent
		if goOn, err := l.mayGoOn(ctx, answered); err != nil || !goOn {
			if err == nil {
				l.ExitReason = "escalation"
			}
			return err
		}
	}
	l.ExitReason = "max_turns"
	return nil
}

// turn takes in a message of the model, makes its calls, and takes in what answers them;
// nil when there are none, or some wait for a person. The message is kept before anything is run,
// so that whoever goes on finds the calls. Those of a message that was cut are not run: they are
// kept with their answers, or whoever goes on would run them.
func (l *loop) turn(ctx context.Context) (*ToolMessages, error) {
	text, err := jsonOf(l.Message)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWrongMessage, err)
	}
	read, err := l.client.read(ctx, text)
	if err != nil {
		return nil, err
	}
	l.Tokens += read.GetTokens()
	of := l.Of
	// A message without an id is known by its place among all: some providers start their
	// ids of calls again in every turn, and a loop that goes on later comes to the same.
	of.TokensUsed, of.TurnID = l.Tokens, cmp.Or(read.GetId(), fmt.Sprintf("%s/%d", l.PromptID, len(l.Messages)))
	own, calls := rawOf(read.GetMessagesJson()), read.GetCalls() > 0
	if isWhole := read.GetCut() == ""; isWhole || !calls {
		if err := l.add(ctx, of.TurnID, isWhole && calls, own); err != nil || !calls {
			l.ExitReason = exitReason(read, err)
			return nil, err
		}
		own = nil
	}
	most := int64(MaxResponseBytes)
	if l.Keep != nil {
		most = maxMessageBytes
	}
	answered, err := l.untilDecided(ctx, func() (*ToolMessages, error) {
		return l.client.run(ctx, &sidecallv1.RunMessageRequest{MessageJson: string(text)}, of, most)
	})
	if err != nil {
		return nil, err
	}
	if len(answered.Held()) > 0 { // what answers a held call closes it
		l.Results, l.ExitReason = answered.Results, heldUp
		return nil, nil //nolint:nilnil // as documented
	}
	turn := ""
	if own != nil {
		turn = of.TurnID
	}
	return answered, l.add(ctx, turn, false, slices.Concat(own, answered.Messages))
}

// heldUp is the exit reason of a loop whose calls wait for a person.
const heldUp = "held"

// untilDecided makes calls, and once more whenever OnHeld says so, until none waits for a person.
func (l *loop) untilDecided(ctx context.Context, run func() (*ToolMessages, error)) (*ToolMessages, error) {
	for {
		answered, err := run()
		if err != nil || len(answered.Held()) == 0 || l.OnHeld == nil {
			return answered, err
		}
		if again, err := l.OnHeld(ctx, answered); err != nil || !again {
			return answered, err
		}
	}
}

func exitReason(read *sidecallv1.ReadMessageResponse, err error) string {
	if err != nil {
		return "error"
	}
	return read.GetExitReason()
}

func (l *loop) mayGoOn(ctx context.Context, answered *ToolMessages) (bool, error) {
	switch {
	case !answered.RequireEscalation:
		return true, nil
	case l.OnEscalation == nil:
		return false, nil
	default:
		return l.OnEscalation(ctx, answered)
	}
}
