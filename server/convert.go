package server

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/interpret"
	"github.com/sidecall/sidecall/output"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/tool"
)

func protoError(e tool.Error) *sidecallv1.ToolError {
	return &sidecallv1.ToolError{
		Code: carried(string(e.Code)), Field: carried(e.Field), Constraint: carried(e.Constraint), Received: carried(e.Received), Hint: carried(e.Hint),
	}
}

// carried is a text that gRPC can carry: a string that is not UTF-8 would cost
// the caller the whole result.
func carried(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func protoClass(c tool.Class) sidecallv1.RecoveryClass {
	switch c {
	case tool.Malformed:
		return sidecallv1.RecoveryClass_RECOVERY_CLASS_MALFORMED
	case tool.Transient:
		return sidecallv1.RecoveryClass_RECOVERY_CLASS_TRANSIENT
	case tool.Unknown:
		return sidecallv1.RecoveryClass_RECOVERY_CLASS_UNKNOWN
	case tool.Guard:
		return sidecallv1.RecoveryClass_RECOVERY_CLASS_GUARD
	default:
		return sidecallv1.RecoveryClass_RECOVERY_CLASS_HARD
	}
}

func protoEffect(e tool.Effect) sidecallv1.Effect {
	switch e {
	case tool.ReadOnly:
		return sidecallv1.Effect_EFFECT_READ_ONLY
	case tool.Idempotent:
		return sidecallv1.Effect_EFFECT_IDEMPOTENT
	case tool.Keyed:
		return sidecallv1.Effect_EFFECT_KEYED
	default:
		return sidecallv1.Effect_EFFECT_NON_IDEMPOTENT
	}
}

func protoBlocks(blocks []backend.Block) []*sidecallv1.ContentBlock {
	if len(blocks) == 0 {
		return nil
	}
	converted := make([]*sidecallv1.ContentBlock, len(blocks))
	for i, b := range blocks {
		converted[i] = &sidecallv1.ContentBlock{
			Type: b.Type, MimeType: b.MIMEType, Data: b.Data, Text: b.Text, Uri: b.URI, Name: b.Name, Size: b.Size,
		}
	}
	return converted
}

// itemLimit caps what is shown of one item of a partial result, in characters.
const itemLimit = 1000

// protoItems converts items, whose texts are the upstream's: they are cleaned
// and capped like every other text of it.
func protoItems(items []interpret.Item) []*sidecallv1.ItemResult {
	if len(items) == 0 {
		return nil
	}
	clean := func(text string) string { return shorten(output.Clean([]byte(text)), itemLimit) }
	converted := make([]*sidecallv1.ItemResult, len(items))
	for i, item := range items {
		converted[i] = &sidecallv1.ItemResult{Index: int32(item.Index), Ok: item.OK, Content: clean(item.Content)}
		if e := item.Error; e != nil {
			converted[i].Error = protoError(tool.Error{
				Code: e.Code, Field: clean(e.Field), Constraint: clean(e.Constraint), Received: clean(e.Received), Hint: clean(e.Hint),
			})
		}
	}
	return converted
}

func protoTool(t *tool.Tool) *sidecallv1.Tool {
	return &sidecallv1.Tool{
		Name: t.Name, Description: t.Description,
		InputSchemaJson: string(t.InputSchema), OutputSchemaJson: string(t.OutputSchema),
		Effect: protoEffect(t.Effect), Backend: t.Backend, Annotations: t.Annotations,
	}
}

func protoState(s dedupe.State) sidecallv1.ExecutionState {
	switch s {
	case dedupe.Claimed:
		return sidecallv1.ExecutionState_EXECUTION_STATE_CLAIMED
	case dedupe.Done:
		return sidecallv1.ExecutionState_EXECUTION_STATE_DONE
	case dedupe.NotRun:
		return sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN
	case dedupe.Unknown:
		return sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN
	default:
		return sidecallv1.ExecutionState_EXECUTION_STATE_UNSPECIFIED
	}
}

func protoExecution(record dedupe.Record) *sidecallv1.Execution {
	return &sidecallv1.Execution{
		State:     protoState(record.State),
		StartedAt: protoTime(record.StartedAt), FinishedAt: protoTime(record.FinishedAt),
		LeaseUntil: protoTime(record.LeaseUntil),
		Attempts:   int32(min(record.Attempts, 1<<20)),
		ToolName:   record.Tool, Effect: protoEffect(record.Effect),
		Epoch: record.Epoch, Owner: record.Owner,
	}
}

func protoTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
