package worker

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// What a failure proves: see the table of the package.
func TestWhatAWorkerSaysOfAFailure(t *testing.T) {
	for name, c := range map[string]struct {
		says   *sidecallv1.WorkerResult
		call   backend.Invocation
		code   tool.Code
		proves tool.Evidence
	}{
		"it failed, and may have done something":   {&sidecallv1.WorkerResult{IsError: true}, backend.Invocation{}, tool.CodeUnrecoverable, tool.Ambiguous},
		"it may be repeated":                       {&sidecallv1.WorkerResult{IsError: true}, backend.Invocation{Effect: tool.Keyed}, tool.CodeUnrecoverable, tool.Definite},
		"it fails cleanly":                         {&sidecallv1.WorkerResult{IsError: true}, backend.Invocation{FailsCleanly: true}, tool.CodeUnrecoverable, tool.Definite},
		"with a code":                              {&sidecallv1.WorkerResult{IsError: true, Code: "NOT_FOUND"}, backend.Invocation{FailsCleanly: true}, tool.CodeNotFound, tool.Definite},
		"with a code of the sidecar's own":         {&sidecallv1.WorkerResult{IsError: true, Code: "CIRCUIT_OPEN"}, backend.Invocation{FailsCleanly: true}, tool.CodeUnrecoverable, tool.Definite},
		"it was not run":                           {&sidecallv1.WorkerResult{NotRun: true}, backend.Invocation{}, tool.CodeDependencyUnavailable, tool.NotExecuted},
		"it was not run, with a code":              {&sidecallv1.WorkerResult{NotRun: true, IsError: true, Code: "INVALID_ARGS"}, backend.Invocation{}, tool.CodeInvalidArgs, tool.NotExecuted},
		"it was not run, and something is no JSON": {&sidecallv1.WorkerResult{NotRun: true, StructuredContentJson: "{"}, backend.Invocation{}, tool.CodeDependencyUnavailable, tool.NotExecuted},
		"it failed, and something is no JSON":      {&sidecallv1.WorkerResult{IsError: true, StructuredContentJson: "{"}, backend.Invocation{}, tool.CodeUnrecoverable, tool.Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			c.says.Content, c.says.RetryAfter = "no \xff such thing", durationpb.New(3*time.Second)
			_, failure := read(c.says, &c.call)
			if failure == nil || failure.Code != c.code || failure.Evidence != c.proves || !failure.CallerFault ||
				failure.Message != "no \uFFFD such thing" || failure.RetryAfter != 3*time.Second {
				t.Errorf("got %+v", failure)
			}
		})
	}
}

func TestWhatAWorkerReturns(t *testing.T) {
	full := backend.Invocation{MaxBytes: 100}
	for name, c := range map[string]struct {
		says *sidecallv1.WorkerResult
		want func(tool.Reply) bool
	}{
		"text":    {&sidecallv1.WorkerResult{Content: "yes"}, func(r tool.Reply) bool { return string(r.Text) == "yes" && !r.JSON && r.Size == 3 && !r.Cut }},
		"nothing": {&sidecallv1.WorkerResult{}, func(r tool.Reply) bool { return len(r.Text) == 0 && !r.JSON && !r.Cut }},
		"JSON":    {&sidecallv1.WorkerResult{Content: ` {"a":1}`}, func(r tool.Reply) bool { return r.JSON }},
		"structured": {&sidecallv1.WorkerResult{StructuredContentJson: `{"a":1}`}, func(r tool.Reply) bool {
			return r.JSON && string(r.Text) == `{"a":1}` && string(r.Structured) == `{"a":1}`
		}},
		"both": {&sidecallv1.WorkerResult{Content: "one", StructuredContentJson: `[1]`}, func(r tool.Reply) bool { return string(r.Text) == "one" && string(r.Structured) == `[1]` }},
		"null": {&sidecallv1.WorkerResult{StructuredContentJson: `null`}, func(r tool.Reply) bool { return r.Structured == nil && len(r.Text) == 0 }},
		"too much text": {&sidecallv1.WorkerResult{Content: strings.Repeat("é", 60)}, func(r tool.Reply) bool {
			return string(r.Text) == strings.Repeat("é", 50) && r.Cut && r.Size == 120
		}},
		"half a letter":   {&sidecallv1.WorkerResult{Content: "x" + strings.Repeat("é", 60)}, func(r tool.Reply) bool { return string(r.Text) == "x"+strings.Repeat("é", 49) && r.Cut }},
		"too much at all": {&sidecallv1.WorkerResult{Content: "x", StructuredContentJson: `"` + strings.Repeat("x", 200) + `"`}, func(r tool.Reply) bool { return string(r.Text) == "x" && r.Structured == nil && r.Cut }},
		"an image": {&sidecallv1.WorkerResult{Blocks: []*sidecallv1.ContentBlock{{Type: "image", MimeType: "image/png", Data: []byte("png")}, {Type: "new"}, {Type: "image", Data: make([]byte, 200)}}},
			func(r tool.Reply) bool {
				return len(r.Blocks) == 3 && string(r.Blocks[0].Data) == "png" && r.Blocks[0].Size == 3 && r.Blocks[1].Type == "resource" && r.Blocks[2].Data == nil && r.Blocks[2].Size == 200 && r.Cut
			}},
	} {
		t.Run(name, func(t *testing.T) {
			if reply, failure := read(c.says, &full); failure != nil || !c.want(reply) {
				t.Errorf("got %+v, %v", reply, failure)
			}
		})
	}
	if _, failure := read(&sidecallv1.WorkerResult{Content: "it is NaN", StructuredContentJson: "-"}, &full); failure == nil || failure.Code != tool.CodeInvalidOutput || failure.Evidence != tool.Definite || failure.Message != "it is NaN" {
		t.Errorf("what is no JSON: %v", failure)
	}
	many := make([]*sidecallv1.ContentBlock, maxBlocks+1)
	if reply, _ := read(&sidecallv1.WorkerResult{Blocks: many}, &full); len(reply.Blocks) != maxBlocks || !reply.Cut {
		t.Errorf("there are %d blocks", len(reply.Blocks))
	}
}

// noRoom is full.
type noRoom struct{}

func (noRoom) Take(int64) bool { return false }

func TestAResultForWhichThereIsNoRoom(t *testing.T) {
	reply, failure := read(&sidecallv1.WorkerResult{Content: strings.Repeat("x", 1<<20)}, &backend.Invocation{Memory: noRoom{}})
	if failure != nil || len(reply.Text) != backend.Uncounted || !reply.Cut {
		t.Errorf("%d bytes, %v", len(reply.Text), failure)
	}
}
