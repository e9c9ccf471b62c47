package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// maxBlocks bounds the blocks of one result that are kept.
	maxBlocks = 1000
	// maxMessage bounds what a failure repeats of the worker's words, in bytes.
	maxMessage = 4 << 10
	// maxWait bounds what a worker may have its callers wait.
	maxWait = 24 * time.Hour
)

// read is the outcome as Invoke returns it.
func (o outcome) read(call *backend.Invocation) (tool.Reply, *tool.Failure) {
	if o.failure != nil {
		return tool.Reply{}, o.failure
	}
	return read(o.result, call)
}

// readLate is an outcome that came when the context had ended: a result counts all the
// same, and so does that nothing was done. Another failure is how a function ends that
// was cancelled. One that had no place in the worker until then was late for want of
// capacity, which is no failure of its tool.
func (o outcome) readLate(ctx context.Context, call *backend.Invocation) (tool.Reply, *tool.Failure) {
	reply, failure := o.read(call)
	switch {
	case failure == nil, backend.WasWithheld(failure),
		failure.Evidence == tool.NotExecuted && failure.Code == tool.CodeOverloaded && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return reply, failure
	case failure.Evidence == tool.NotExecuted:
		return reply, ended(ctx, tool.NotExecuted)
	default:
		return reply, ended(ctx, tool.Ambiguous)
	}
}

// read reads a result.
func read(r *sidecallv1.WorkerResult, call *backend.Invocation) (tool.Reply, *tool.Failure) {
	var failure *tool.Failure
	if r.GetIsError() || r.GetNotRun() {
		failure = failed(r, call)
	}
	structured := bytes.TrimSpace([]byte(r.GetStructuredContentJson()))
	if len(structured) > 0 && !json.Valid(structured) {
		if failure == nil {
			return tool.Reply{}, unreadable(r.GetContent())
		}
		structured = nil // what the worker says of a failure counts
	}
	b := reader{left: mostBytes(r, call)}
	b.text(r.GetContent())
	b.structured(structured)
	b.blocks(r.GetBlocks())
	return b.reply, failure
}

// mostBytes is how many bytes of a result are kept.
func mostBytes(r *sidecallv1.WorkerResult, call *backend.Invocation) int64 {
	most := int64(proto.Size(r))
	if call.MaxBytes > 0 {
		most = min(most, call.MaxBytes)
	}
	if !backend.Fits(call.Memory, 0, most) {
		return backend.Uncounted
	}
	return most
}

// reader puts a reply together from what there is room for.
type reader struct {
	reply tool.Reply
	left  int64
}

// take takes room for so many bytes; false when there is none.
func (b *reader) take(n int) bool {
	if int64(n) > b.left {
		b.reply.Cut = true
		return false
	}
	b.left -= int64(n)
	return true
}

func (b *reader) text(content string) {
	b.reply.Size = int64(len(content))
	if !b.take(len(content)) {
		cut := int(b.left)
		for cut > 0 && !utf8.RuneStart(content[cut]) {
			cut-- // no half of a character
		}
		content, b.left = content[:cut], 0
	}
	b.reply.Text = []byte(content)
	b.reply.JSON = !b.reply.Cut && backend.EvidentJSON(b.reply.Text)
}

func (b *reader) structured(value []byte) {
	if len(value) == 0 || bytes.Equal(value, []byte("null")) || !b.take(len(value)) {
		return
	}
	b.reply.Structured = value
	if len(b.reply.Text) == 0 {
		b.reply.Text, b.reply.Size, b.reply.JSON = value, int64(len(value)), true
	}
}

// blockTypes are the blocks that there are.
var blockTypes = []string{"image", "audio", "resource", "resource_link"}

func (b *reader) blocks(blocks []*sidecallv1.ContentBlock) {
	for _, block := range blocks {
		if len(b.reply.Blocks) == maxBlocks {
			b.reply.Cut = true
			return
		}
		kept := tool.Block{
			Type: block.GetType(), MIMEType: text(block.GetMimeType()), URI: text(block.GetUri()), Name: text(block.GetName()),
			Size: int64(len(block.GetData()) + len(block.GetText())),
		}
		if !slices.Contains(blockTypes, kept.Type) {
			kept.Type = "resource"
		}
		if b.take(len(block.GetData()) + len(block.GetText())) {
			kept.Data, kept.Text = block.GetData(), block.GetText()
		}
		b.reply.Blocks = append(b.reply.Blocks, kept)
	}
}

// unreadable is a result that cannot be read. The function ran; what it did is not in
// doubt. Clients send one for what a function returned and JSON cannot hold, with the
// reason as its content.
func unreadable(content string) *tool.Failure {
	return &tool.Failure{
		Code: tool.CodeInvalidOutput, Evidence: tool.Definite, ErrorType: "invalid_output", CallerFault: true,
		Constraint: "the function ran, but its structured content is not JSON",
		Message:    said(content),
	}
}

// said is what a failure repeats of the worker's words.
func said(content string) string {
	return tool.ShortenBytes(strings.ToValidUTF8(content, "\uFFFD"), maxMessage)
}

// sayable are the codes that a worker may give: those that say something about the
// tool.
var sayable = []tool.Code{
	tool.CodeInvalidArgs, tool.CodeNotFound, tool.CodePermissionDenied, tool.CodeUnauthenticated, tool.CodeConflict,
	tool.CodeBusinessRule, tool.CodeUnrecoverable, tool.CodeRateLimited, tool.CodeTimeout,
	tool.CodeDependencyUnavailable, tool.CodeOverloaded,
}

// failed is a failure that the worker tells of. It is alive, whatever the function
// does. That the function was not run is the word of the program that runs it; that it
// failed is the function's.
func failed(r *sidecallv1.WorkerResult, call *backend.Invocation) *tool.Failure {
	f := &tool.Failure{
		Code: tool.Code(r.GetCode()), Evidence: tool.NotExecuted, ErrorType: "not_run", CallerFault: true,
		Constraint: "the worker says that the function was not run",
		Message:    said(r.GetContent()),
		RetryAfter: min(max(r.GetRetryAfter().AsDuration(), 0), maxWait),
	}
	known := slices.Contains(sayable, f.Code)
	if r.GetNotRun() {
		if !known {
			f.Code = tool.CodeDependencyUnavailable
		}
		return f
	}
	if !known {
		f.Code = tool.CodeUnrecoverable
	}
	f.Constraint, f.ErrorType = "the function says that it failed", "tool_error"
	return call.OwnWord(f)
}
