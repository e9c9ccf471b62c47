package conversation

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/tool"
)

// Answer is what an append says of a call.
type Answer struct {
	Call

	// Age is how long ago the model made the oldest call that was open then; 0 for a call of
	// the same append.
	Age time.Duration
	// Text is all of the text in it.
	Text string
	// Field is the message that it stands in: messages_json[2].
	Field string
}

// Fence says which of the calls that an append answers it closes: those that have not
// run, so that they never do. The error is a *Contradiction for an append that must not be
// written. It is asked again when the records have changed before the append was written.
type Fence func(ctx context.Context, answers []Answer) ([]dedupe.Closing, error)

// Contradiction is the error of an append that answers a call otherwise than its record
// does: written, the conversation would say what is not so.
type Contradiction struct {
	// Answer is the first of them.
	Answer Answer
	// Why says what is known of the call.
	Why string
}

func (e *Contradiction) Error() string {
	return fmt.Sprintf("%s: answers the call %s, %s: nothing was appended; resume the conversation, and append what it says of the call",
		e.Answer.Field, tool.Quote(e.Answer.ID), e.Why)
}

// answersIn are what a message says of the calls that it answers.
func answersIn(format provider.Format, raw, field string, calls []Call) ([]Answer, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	results, err := resultsIn(format, raw)
	if err != nil {
		return nil, invalid(field, "cannot be read: %v", err)
	}
	texts := map[string]string{}
	for _, r := range results {
		texts[r.id] = words(raw[r.start:r.end])
	}
	all := make([]Answer, len(calls))
	for i, call := range calls {
		all[i] = Answer{Call: call, Text: texts[call.ID], Field: field}
	}
	return all, nil
}

// words are the text of a content, which is a text or a list of blocks.
func words(content string) string {
	if !strings.HasPrefix(content, "[") {
		return said(content)
	}
	var all strings.Builder
	err := provider.Each([]byte(content), "content", func(_ int, b *struct {
		Text string `json:"text"`
	}) error {
		all.WriteString(b.Text)
		return nil
	})
	if err != nil {
		return content // blocks that are none say what they are
	}
	return all.String()
}
