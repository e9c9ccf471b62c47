package sidecall

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Conversation is one that the sidecar keeps, so that another process can go on with it.
// It is for one goroutine. When two processes append to the same one, the second is told
// by ErrStaleConversation: it resumes the conversation.
type Conversation struct {
	// ID names it, Format is the provider's that its messages are sent to.
	ID     string
	Format Format
	// Messages are all of it so far, byte for byte as they were appended, but for results
	// that Compact leaves out.
	Messages []json.RawMessage
	// PromptID is the one that the last messages belong to, and those that Append is given.
	// Who appends a message of the user by hand sets another; RunLoop does so by itself.
	PromptID string

	client *Client
	// leaves is what is left out of Messages when they are loaded.
	leaves Compaction
	// pending are the calls in it that had no result when it was loaded.
	pending []*sidecallv1.PendingCall
	// unsure: there may be more in it than Messages, or calls without a result.
	unsure bool
}

// ErrStaleConversation is an append to what has changed: somebody else has appended, or has run a call
// that the messages say was not run. Nothing of it is kept; Resume loads what there is.
var ErrStaleConversation = errors.New("the conversation has changed")

// Conversation loads a conversation; one that is not there yet has no messages. Until it
// has been resumed, nothing but the results of its calls can be appended to it.
func (c *Client) Conversation(ctx context.Context, id string, format Format) (*Conversation, error) {
	v := &Conversation{ID: id, Format: format, client: c}
	if err := v.load(ctx); err != nil {
		return nil, err
	}
	return v, nil
}

// Compaction says which results of tools are left out of a conversation that is loaded:
// each becomes one line with its output_ref, by which read_output returns it. Those of the
// last turn stay, and so does all else, byte for byte.
type Compaction struct {
	// AfterTurns leaves out results that are older than the last so many turns; 0 is no
	// bound.
	AfterTurns int32
	// ToTokens leaves out the oldest ones until there are about so many tokens; 0 is no
	// bound.
	ToTokens int64
}

// Compact loads the conversation anew with results left out, now and whenever it is
// loaded again. What the sidecar keeps stays whole: the zero Compaction brings it back.
func (v *Conversation) Compact(ctx context.Context, leave Compaction) error {
	v.leaves = leave
	return v.load(ctx)
}

// load fetches all of it. After an error it is as it was, or unsure.
func (v *Conversation) load(ctx context.Context) error {
	service := v.client.Conversations()
	resumed, err := insist(ctx, v.client, func() (*sidecallv1.ResumeConversationResponse, error) {
		return service.ResumeConversation(ctx, &sidecallv1.ResumeConversationRequest{
			ConversationId: v.ID, CompactAfterTurns: v.leaves.AfterTurns, CompactToTokens: v.leaves.ToTokens,
		})
	})
	if err != nil && status.Code(err) != codes.NotFound {
		return err
	}
	if got := Format(resumed.GetProvider()); err == nil && got != v.Format {
		return fmt.Errorf("conversation %s is one of %s, not of %s", v.ID, got, v.Format)
	}
	v.Messages, v.pending, v.PromptID, v.unsure = nil, resumed.GetPending(), resumed.GetPromptId(), true
	v.add(resumed.GetMessagesJson())
	for int64(len(v.Messages)) < resumed.GetVersion() {
		page, err := insist(ctx, v.client, func() (*sidecallv1.LoadConversationResponse, error) {
			return service.LoadConversation(ctx, &sidecallv1.LoadConversationRequest{
				ConversationId: v.ID, FromVersion: int64(len(v.Messages)), CompactBefore: resumed.GetCompactedBefore(),
			})
		})
		if err != nil {
			return err
		}
		if len(page.GetMessagesJson()) == 0 {
			return fmt.Errorf("%w: conversation %s has no message %d", ErrBrokenAnswer, v.ID, len(v.Messages))
		}
		v.add(page.GetMessagesJson())
	}
	// Whoever has appended meanwhile has made this one stale: the next append says so.
	v.Messages = v.Messages[:resumed.GetVersion()]
	v.unsure = false
	return nil
}

func (v *Conversation) add(messages []string) {
	v.Messages = append(v.Messages, rawOf(messages)...)
}

// Conversations returns the stub of the service that keeps messages, for what has no method
// here: the list of all conversations.
func (c *Client) Conversations() sidecallv1.ConversationServiceClient {
	return sidecallv1.NewConversationServiceClient(c.conn)
}

// Append keeps messages: values of a provider's SDK, JSON, or what marshals to it. turn
// is the Turn of the calls in them, and may be empty where there are none. While the
// sidecar is away it is asked again, for 30 s: what it has written then is not written
// twice. Nothing of it is kept after an error but, perhaps, of Unavailable.
func (v *Conversation) Append(ctx context.Context, turn string, messages ...any) error {
	return v.append(ctx, turn, turn != "" || len(v.pending) > 0, messages...)
}

// append keeps messages; open says that afterwards there may be calls without a result.
func (v *Conversation) append(ctx context.Context, turn string, open bool, messages ...any) error {
	raw := make([]string, len(messages))
	for i, m := range messages {
		text, err := jsonOf(m)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if len(text) > maxMessageBytes {
			return fmt.Errorf("%w: message %d has %d bytes, and one that is kept has at most %d: name pictures and files by their URL, or say less",
				ErrWrongMessage, i, len(text), maxMessageBytes)
		}
		raw[i] = string(text)
	}
	if len(raw) == 0 {
		return nil
	}
	request := &sidecallv1.AppendMessagesRequest{
		ConversationId: v.ID, ExpectedVersion: int64(len(v.Messages)), Provider: string(v.Format), TurnId: turn, MessagesJson: raw,
		AppendId: rand.Text(), PromptId: v.PromptID,
	}
	v.unsure = true // whatever comes of it: what is not known to be refused may be kept
	_, err := insist(ctx, v.client, func() (*sidecallv1.AppendMessagesResponse, error) {
		return v.client.Conversations().AppendMessages(ctx, request)
	})
	if err != nil {
		return stale(err)
	}
	v.add(raw)
	v.unsure = open
	return nil
}

// stale says of an error that the conversation has changed, when it has.
func stale(err error) error {
	switch status.Code(err) {
	case codes.Aborted, codes.FailedPrecondition:
		return fmt.Errorf("%w: %w", ErrStaleConversation, err)
	}
	return err
}

// Resume makes the calls that have no result: with the ids that they had, so that what is
// done is replayed and nothing runs twice; and appends what answers them. A call of so
// long ago that its record may be forgotten is not made again. of has what
// they share, but for ID, Tool, Arguments, ConversationID and TurnID; its PromptID counts where
// the conversation has none, since calls stay in theirs. What it returns is empty
// where every call has its result. Where one of them waits for a person (Held) nothing is appended:
// resume once more when it is decided. After an error it loads what there is first.
func (v *Conversation) Resume(ctx context.Context, of Call) (*ToolMessages, error) {
	if v.unsure {
		if err := v.load(ctx); err != nil {
			return nil, err
		}
	}
	if len(v.pending) == 0 {
		return &ToolMessages{}, nil
	}
	v.PromptID = cmp.Or(v.PromptID, of.PromptID)
	of.ConversationID, of.TurnID, of.PromptID = v.ID, "", v.PromptID
	v.unsure = true // whatever comes of it
	answered, err := v.client.run(ctx, &sidecallv1.RunMessageRequest{OpenAtVersion: int64(len(v.Messages))}, of, maxMessageBytes)
	if err != nil {
		return nil, stale(err)
	}
	if len(answered.Held()) > 0 { // what answers a held call closes it
		return answered, nil
	}
	if err := v.append(ctx, "", false, anyOf(answered.Messages)...); err != nil {
		return nil, err
	}
	v.pending = nil
	return answered, nil
}

// ended reports that the model has said its last word: a message without calls.
func (v *Conversation) ended() bool {
	if len(v.Messages) == 0 {
		return false
	}
	var last struct {
		Role string `json:"role"`
	}
	return json.Unmarshal(v.Messages[len(v.Messages)-1], &last) == nil && last.Role == "assistant"
}

func anyOf(messages []json.RawMessage) []any {
	all := make([]any, len(messages))
	for i, m := range messages {
		all[i] = m
	}
	return all
}
