package sidecall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Format is the wire format of a provider.
type Format string

const (
	// Anthropic is the Messages API.
	Anthropic Format = "anthropic"
	// OpenAI is Chat Completions, OpenAIResponses the Responses API.
	OpenAI          Format = "openai"
	OpenAIResponses Format = "openai-responses"
)

// ErrWrongMessage is wrapped by the error of what is no message of an assistant by a
// provider that the sidecar knows. Nothing was run.
var ErrWrongMessage = errors.New("no message of an assistant")

const (
	// patience is how long requests are sent again while the sidecar is away; firstPause
	// and longestPause are between two of them.
	patience     = 30 * time.Second
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// ToolMessages are what came of the calls of a message.
type ToolMessages struct {
	// Messages are what is to be appended after the message of the assistant, in this
	// order and before any other; none when it calls no tool.
	Messages []json.RawMessage
	// Results are those of its calls, in order.
	Results []*Result
	// Stop: the loop has to end now: the model goes round in circles, and was told so.
	Stop bool
	// RequireEscalation: a person has to be asked before the model goes on.
	RequireEscalation bool

	// spent: nothing ran because the budget of the prompt is used up.
	spent bool
}

// Held are the results of the calls that wait for a person. To append any of the messages
// closes them: run the same message again once they are decided.
func (m *ToolMessages) Held() (held []*Result) {
	for _, r := range m.Results {
		if r.GetHold() != nil {
			held = append(held, r)
		}
	}
	return held
}

// RunTools runs the tools that the message of an assistant calls, and returns what is to be
// appended after it. The message is an Anthropic message, a Chat Completion (or a choice or
// message of one) or a Response: the value of a provider's SDK, its JSON ([]byte,
// json.RawMessage or string), or what marshals to that. of has what its calls share: all but
// ID, Tool and Arguments; its Turn is the provider's id of the message unless it is set.
// While the sidecar is away, the message is sent again, for 30 s: its calls have the same
// ids. Calls of a message that was cut are answered and not run.
func (c *Client) RunTools(ctx context.Context, message any, of Call) (*ToolMessages, error) {
	if of.ConversationID == "" {
		return nil, ErrNoConversation
	}
	text, err := jsonOf(message)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWrongMessage, err)
	}
	return c.run(ctx, &sidecallv1.RunMessageRequest{MessageJson: string(text)}, of, MaxResponseBytes)
}

// run runs calls; what answers them has no more bytes than most.
func (c *Client) run(ctx context.Context, request *sidecallv1.RunMessageRequest, of Call, most int64) (*ToolMessages, error) {
	of.ToolUseID, of.ToolName, of.Arguments = "", "", ""
	request.Shared, request.MaxResponseBytes = of.request(), most
	answer, err := insist(ctx, c, func() (*sidecallv1.RunMessageResponse, error) { return c.service.RunMessage(ctx, request) })
	if err != nil {
		return nil, wrongMessage(err)
	}
	return &ToolMessages{
		Messages: rawOf(answer.GetMessagesJson()), Results: answer.GetResults(), Stop: answer.GetStop(),
		RequireEscalation: answer.GetRequireEscalation(), spent: answer.GetBudgetExceeded(),
	}, nil
}

// read is what a message asks for.
func (c *Client) read(ctx context.Context, message []byte) (*sidecallv1.ReadMessageResponse, error) {
	read, err := insist(ctx, c, func() (*sidecallv1.ReadMessageResponse, error) {
		return c.service.ReadMessage(ctx, &sidecallv1.ReadMessageRequest{MessageJson: string(message)})
	})
	return read, wrongMessage(err)
}

// wrongMessage says of an error that it is the message's, when it is.
func wrongMessage(err error) error {
	if why, is := strings.CutPrefix(status.Convert(err).Message(), "message_json: "); is && status.Code(err) == codes.InvalidArgument {
		return fmt.Errorf("%w: %s", ErrWrongMessage, why)
	}
	return err
}

// jsonOf is a message as the provider sent it.
func jsonOf(message any) ([]byte, error) {
	switch m := message.(type) {
	case nil:
		return nil, errors.New("it is nil")
	case []byte:
		return m, nil
	case json.RawMessage:
		return m, nil
	case string:
		return []byte(m), nil
	case interface{ RawJSON() string }: // of SDKs whose values know what they were read from
		if raw := m.RawJSON(); raw != "" {
			return []byte(raw), nil
		}
	}
	return json.Marshal(message)
}

func rawOf(texts []string) []json.RawMessage {
	all := make([]json.RawMessage, len(texts))
	for i, text := range texts {
		all[i] = json.RawMessage(text)
	}
	return all
}

// insist asks again, for a while, as long as the sidecar is away: it drains, or is being
// replaced. When the one that was launched has ended there is never to be another.
func insist[T any](ctx context.Context, c *Client, ask func() (T, error)) (T, error) {
	end, pause := time.Now().Add(patience), firstPause
	for {
		answer, err := ask()
		if status.Code(err) != codes.Unavailable || time.Now().Add(pause).After(end) {
			return answer, err
		}
		if ended := c.ended(); ended != nil {
			return answer, ended
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return answer, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-timer.C:
		}
		pause = min(2*pause, longestPause)
	}
}
