// Package builtin has the tools that Sidecall brings itself. Nothing can fail in
// it but the store: that proves that nothing happened, since reading is all
// there is to happen.
package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/tool"
)

// pageOverhead is kept free of a page for the boundary and the position line
// around it, so that a page is never cut again.
const pageOverhead = 600

// readOutput is the backend of the built-in tool read_output: it pages through
// outputs that were cut. It goes through the pipeline as every tool does.
type readOutput struct {
	outputs Outputs
	places  chan struct{} // one for each output that may be read at a time
}

// errNoTurn is of a call whose time was over before its output was read.
var errNoTurn = errors.New("too many outputs are read at the same time")

// Outputs serve what was kept.
type Outputs interface {
	// Read returns what a handle stands for in a conversation; dedupe.ErrNoOutput
	// when it stands for nothing there.
	Read(ctx context.Context, tenant, conversation, handle string) (output.Kept, error)
}

// NewReadOutput returns the backend of the built-in tool read_output.
func NewReadOutput(outputs Outputs) backend.Backend {
	return readOutput{outputs, make(chan struct{}, output.MaxReaders)}
}

// Invoke returns one page.
func (b readOutput) Invoke(ctx context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
	ref, _ := in.Parsed["output_ref"].(string)
	pattern, _ := in.Parsed["pattern"].(string)
	select {
	case b.places <- struct{}{}:
		defer func() { <-b.places }()
	case <-ctx.Done():
		return tool.Reply{}, &tool.Failure{Code: tool.CodeOverloaded, Evidence: tool.NotExecuted, Err: errNoTurn}
	}
	kept, err := b.outputs.Read(ctx, in.Tenant, in.Conversation, ref)
	switch {
	case errors.Is(err, dedupe.ErrNoOutput):
		return tool.Reply{}, &tool.Failure{
			Code: tool.CodeNotFound, Evidence: tool.Definite, CallerFault: true, Field: "output_ref",
			Constraint: "no output of this conversation is kept under this output_ref: it has expired, or never was", Message: ref,
			Hint: "Use an output_ref exactly as a notice gave it; if it has expired, call the tool again for less at a time.",
		}
	case err != nil:
		return tool.Reply{}, &tool.Failure{Code: tool.CodeStoreUnavailable, Evidence: tool.NotExecuted, Err: err}
	}
	if kept.MediaType != "" { // for the program, not for a model
		return tool.Reply{Binary: kept.MediaType, Size: int64(len(kept.Data))}, nil
	}
	limit := whole(in.Parsed["limit"])
	if most := int64(max(in.MaxChars-pageOverhead, 1)); limit == 0 || limit > most {
		limit = most
	}
	page, invalid := output.Page(ctx, kept.Data, whole(in.Parsed["offset"]), limit, pattern)
	if invalid != nil {
		return tool.Reply{}, &tool.Failure{
			Code: invalid.Code, Evidence: tool.Definite, CallerFault: true, Field: invalid.Field,
			Constraint: invalid.Constraint, Message: invalid.Received, Hint: invalid.Hint,
		}
	}
	return tool.Reply{Text: []byte(page.Content + position(page, pattern != "", kept.Complete))}, nil
}

// position tells the model where it is and how to go on; of a search, what came of it.
func position(page output.PageResult, searched, complete bool) string {
	if searched {
		return found(page, complete)
	}
	switch {
	case page.NextOffset < page.TotalChars:
		return fmt.Sprintf("\n[%d characters in all; for more call read_output with offset %d]", page.TotalChars, page.NextOffset)
	case !complete:
		return fmt.Sprintf("\n[end of what was kept: %d characters; the tool returned more]", page.TotalChars)
	default:
		return fmt.Sprintf("\n[end: %d characters in all]", page.TotalChars)
	}
}

func found(page output.PageResult, complete bool) string {
	what := "nothing matches"
	if page.Matches > 0 {
		what = fmt.Sprintf("matches: %d", page.Matches)
	}
	switch {
	case page.NextOffset < page.TotalChars:
		return fmt.Sprintf("\n[%s in characters up to %d of %d; for more call read_output with the same pattern and offset %d]", what, page.NextOffset, page.TotalChars, page.NextOffset)
	case !complete:
		return fmt.Sprintf("\n[%s up to the end of what was kept: %d characters; the tool returned more]", what, page.TotalChars)
	default:
		return fmt.Sprintf("\n[%s up to the end: %d characters in all]", what, page.TotalChars)
	}
}

// whole reads an integer argument that the schema has checked; 0 when absent.
func whole(v any) int64 {
	n, ok := v.(json.Number)
	if !ok {
		return 0
	}
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return i
	}
	f, err := n.Float64() // 1e3 and 5.0 are integers to JSON Schema
	if err != nil || f > 1<<53 || f < -(1<<53) {
		return 1 << 53
	}
	return int64(f)
}

// Close has nothing to end: the store is closed by its owner.
func (readOutput) Close(context.Context) error { return nil }
