// Package result makes the response of a call: what is recorded, what a replay
// gives again, and what the agent gets. The words of errors come from package
// explain; here they get their shape.
package result

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Response is the one result of a call.
type Response = sidecallv1.ExecuteToolResponse

// notices adds what is to be said of items that are not shown.
func (i *Items) notices(to []string) []string {
	if i.Left == 0 {
		return to
	}
	return append(to, fmt.Sprintf("items shows the first %d of %d.", len(i.Shown), len(i.Shown)+i.Left))
}

// Shown is what is sent as it is shown, whole; empty for what would be cleaned.
func Shown(text string) string {
	if output.Clean([]byte(text)) != text {
		return ""
	}
	return text
}

// What is told of an error at the most, in characters: the arguments that it is
// about may be as large as a request. The rule itself may be a list of all that is
// allowed, which programs read.
const (
	maxField      = 1_000
	maxConstraint = 32_000
	maxHint       = 8_000
)

// bounded bounds an error. What it has received is bounded where it is quoted.
func bounded(e tool.Error) tool.Error {
	e.Field = tool.Shorten(e.Field, maxField)
	e.Constraint = tool.Shorten(e.Constraint, maxConstraint)
	e.Hint = tool.Shorten(e.Hint, maxHint)
	return e
}

// Recorded is the recorded result of a call; an error when the record holds none
// that can be read.
func Recorded(record dedupe.Record) (*Response, error) {
	if len(record.Result) == 0 {
		return nil, errors.New("the record holds no result")
	}
	res := &Response{}
	if err := proto.Unmarshal(record.Result, res); err != nil {
		return nil, fmt.Errorf("the recorded result cannot be read: %w", err)
	}
	return res, nil
}

// Ended is when the call of a record with a result has ended. Of one that somebody has settled since
// the record itself says when that was.
func Ended(record dedupe.Record, recorded *Response) time.Time {
	if recorded.GetResolution() == nil || recorded.GetDuration() == nil {
		return record.FinishedAt
	}
	return record.StartedAt.Add(recorded.GetDuration().AsDuration())
}

// Replay tells a recorded result again.
func Replay(recorded *Response) *Answer {
	return &Answer{Again: recorded, Origin: Origin{Quotes: recorded, Replayed: true, Recorded: recorded.GetRecorded()}}
}
