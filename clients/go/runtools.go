package sidecall

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// maxBatch is how many calls a request has at most.
	maxBatch = 128
	// patience is how long requests are sent again while the sidecar is away; firstPause
	// and longestPause are between two of them.
	patience     = 30 * time.Second
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
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
	if of.Conversation == "" {
		return nil, ErrNoConversation
	}
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
	of.Message = cmp.Or(of.Message, of.Turn) // its calls may be several batches
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
