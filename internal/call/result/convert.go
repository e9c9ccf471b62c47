package result

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/redact"
	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Error is an error as the contract has it.
func Error(e tool.Error) *sidecallv1.ToolError {
	return &sidecallv1.ToolError{
		Code: carried(string(e.Code)), Field: carried(e.Field), Constraint: carried(e.Constraint), Received: carried(e.Received), Hint: carried(e.Hint),
	}
}

// carried is a text that gRPC can carry: a string that is not UTF-8 would cost
// the caller the whole result.
func carried(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func class(c tool.Class) sidecallv1.RecoveryClass {
	switch c {
	case tool.Malformed:
		return sidecallv1.RecoveryClass_RECOVERY_CLASS_MALFORMED
	case tool.Transient:
		return sidecallv1.RecoveryClass_RECOVERY_CLASS_TRANSIENT
	case tool.Unknown:
		return sidecallv1.RecoveryClass_RECOVERY_CLASS_UNKNOWN
	case tool.Guard:
		return sidecallv1.RecoveryClass_RECOVERY_CLASS_GUARD
	case tool.Hard:
		return sidecallv1.RecoveryClass_RECOVERY_CLASS_HARD
	}
	panic(fmt.Sprintf("a class that is none: %q", c))
}

// Effect is an effect as the contract has it.
func Effect(e tool.Effect) sidecallv1.Effect {
	switch e {
	case tool.ReadOnly:
		return sidecallv1.Effect_EFFECT_READ_ONLY
	case tool.Idempotent:
		return sidecallv1.Effect_EFFECT_IDEMPOTENT
	case tool.Keyed:
		return sidecallv1.Effect_EFFECT_KEYED
	case tool.NonIdempotent:
		return sidecallv1.Effect_EFFECT_NON_IDEMPOTENT
	}
	panic(fmt.Sprintf("an effect that is none: %d", e))
}

func blocks(of []tool.Block, refs []string) []*sidecallv1.ContentBlock {
	if len(of) == 0 {
		return nil
	}
	converted := make([]*sidecallv1.ContentBlock, len(of))
	for i, b := range of {
		converted[i] = &sidecallv1.ContentBlock{
			Type: b.Type, MimeType: b.MIMEType, Data: b.Data, Text: b.Text, Uri: b.URI, Name: b.Name, Size: b.Size,
			OutputRef: refs[i],
		}
	}
	return converted
}

const (
	// itemLimit caps what is shown of one text of an item of a partial result, in
	// characters.
	itemLimit = 1000
	// itemsLimit caps all items together, encoded, in bytes. The content has them
	// all.
	itemsLimit = 512 << 10
)

// Items are what a reply told item by item.
type Items struct {
	Shown []*sidecallv1.ItemResult
	// Bytes is what they take, encoded, and Left how many are not shown.
	Bytes int64
	Left  int
}

// ItemsOf converts the items of a reply, whose texts are the upstream's: they are
// cleaned and capped like every other text of it, and lose its secrets. explained is
// the error of an item that was not done.
func ItemsOf(reading *interpret.Reading, secrets *redact.Set, explained func(*interpret.Item) tool.Error) (items Items) {
	clean := func(text string) string {
		return tool.Shorten(secrets.Replace(output.Clean([]byte(text))), itemLimit)
	}
	for i := range reading.Items {
		item := &reading.Items[i]
		converted := &sidecallv1.ItemResult{Index: int32(item.Index), Ok: item.OK, Content: clean(item.Content)}
		if item.Error != nil {
			e := explained(item)
			converted.Error = Error(tool.Error{
				Code: e.Code, Field: clean(e.Field), Constraint: clean(e.Constraint), Received: clean(e.Received), Hint: clean(e.Hint),
			})
		}
		size := int64(proto.Size(converted)) + itemOverhead
		if items.Bytes+size > itemsLimit {
			items.Left = len(reading.Items) - i
			break
		}
		items.Bytes += size
		items.Shown = append(items.Shown, converted)
	}
	return items
}

// itemOverhead is what an item takes in a response beside itself, in bytes.
const itemOverhead = 5

func loopLevel(l guard.Level) sidecallv1.LoopLevel {
	switch l {
	case guard.Pass:
		return sidecallv1.LoopLevel_LOOP_LEVEL_UNSPECIFIED
	case guard.Nudge:
		return sidecallv1.LoopLevel_LOOP_LEVEL_NUDGE
	case guard.Refuse:
		return sidecallv1.LoopLevel_LOOP_LEVEL_REFUSE
	case guard.Escalate:
		return sidecallv1.LoopLevel_LOOP_LEVEL_ESCALATE
	case guard.Stop:
		return sidecallv1.LoopLevel_LOOP_LEVEL_STOP
	}
	panic(fmt.Sprintf("a level that is none: %d", l))
}

// Tool is a tool as ListTools shows it.
func Tool(t *tool.Tool) *sidecallv1.Tool {
	return &sidecallv1.Tool{
		Name: t.Name, Description: t.Description,
		InputSchemaJson: string(t.InputSchema), OutputSchemaJson: string(t.OutputSchema),
		Effect: Effect(t.Effect), Backend: t.Backend, Annotations: t.Annotations,
		DefinitionHash: t.DefinitionHash,
	}
}

// State is the state of a record as the contract has it.
func State(s dedupe.State) sidecallv1.ExecutionState {
	switch s {
	case dedupe.Claimed:
		return sidecallv1.ExecutionState_EXECUTION_STATE_CLAIMED
	case dedupe.Done:
		return sidecallv1.ExecutionState_EXECUTION_STATE_DONE
	case dedupe.NotRun:
		return sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN
	case dedupe.Unknown:
		return sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN
	case dedupe.Closed:
		return sidecallv1.ExecutionState_EXECUTION_STATE_CLOSED
	case dedupe.Held:
		return sidecallv1.ExecutionState_EXECUTION_STATE_HELD
	case dedupe.Absent:
		return sidecallv1.ExecutionState_EXECUTION_STATE_UNSPECIFIED
	}
	panic(fmt.Sprintf("a state that is none: %d", s))
}

// Execution is a record as GetExecution shows it, without its result.
func Execution(record dedupe.Record) *sidecallv1.Execution {
	return &sidecallv1.Execution{
		State:     State(record.State),
		StartedAt: Instant(record.StartedAt), FinishedAt: Instant(record.FinishedAt),
		LeaseUntil: Instant(record.LeaseUntil),
		Attempts:   int32(min(record.Attempts, 1<<20)),
		ToolName:   record.Tool, Effect: Effect(record.Effect),
		Epoch: record.Epoch, Owner: record.Owner,
	}
}

// Instant is an instant as the contract has it; unset for the zero time.
func Instant(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// outcome is the outcome of a call that worked.
func outcome(o interpret.Outcome) sidecallv1.Outcome {
	switch o {
	case interpret.OK:
		return sidecallv1.Outcome_OUTCOME_OK
	case interpret.Empty:
		return sidecallv1.Outcome_OUTCOME_EMPTY
	case interpret.Partial:
		return sidecallv1.Outcome_OUTCOME_PARTIAL
	case interpret.Failed:
	}
	panic(fmt.Sprintf("a call that worked and is %s", o))
}
