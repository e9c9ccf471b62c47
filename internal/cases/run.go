package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// maxRuns is how often a case is run whose machine stood still meanwhile.
const maxRuns = 5

// untilUndisturbed runs a case until it is met, or is not met though nothing
// disturbed it. A machine that stands still lets time limits pass that nothing else
// would: what they bring says nothing of the case.
func untilUndisturbed(run func() (result Result, still bool, err error)) (Result, error) {
	for runs := 1; ; runs++ {
		result, still, err := run()
		if err != nil || result.Met || !still || runs == maxRuns {
			result.Disturbed = still && !result.Met
			return result, err
		}
	}
}

// patience bounds one run of a case.
const patience = 5 * time.Minute

// run runs a case once. still reports that the machine stood still meanwhile.
func (s *Suite) run(ctx context.Context, i int) (result Result, still bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	one := &s.doc.Value.Cases[i]
	cfg, err := s.fresh()
	if err != nil {
		return result, false, err
	}
	called, least := s.called(one, targets{cfg}), one.least(targets{cfg})
	on, err := setUp(ctx, cfg, called, one, s.options.Program)
	if err != nil {
		return result, false, err
	}
	defer func() { err = errors.Join(err, on.takeDown(ctx)) }()
	watch := watchClock()
	defer func() { still = watch.end(least) }()
	began := time.Now()
	result = Result{Name: one.Name, Line: s.line(i, nil)}
	for n, step := range one.steps() {
		faults, err := readPlan(step.Fault)
		if err != nil {
			return result, false, err // which check has looked for
		}
		seen, err := on.play(ctx, one, &step, faults, n)
		if err != nil {
			return result, false, err
		}
		result.Calls = append(result.Calls, CallResult{Line: s.line(i, one.stepPath(n)), Tool: step.Call.Tool, Seen: seen, Unmet: judge(step.Expect, faults, &seen)})
	}
	result.Took, result.Met = Span(time.Since(began).Round(time.Millisecond)), result.met()
	return result, false, nil
}

// line is where a case, or a call of it, stands.
func (s *Suite) line(i int, step []string) int {
	return s.doc.Where(append([]string{"cases", strconv.Itoa(i)}, step...)...).Line
}

// called are the tools of a config that a case calls.
func (s *Suite) called(one *oneCase, t targets) []target {
	var all []target
	for _, step := range one.steps() {
		if found, ok := t.find(step.Call.Tool); ok {
			all = append(all, found)
		}
	}
	return all
}

// play makes a call and tells what was seen of it.
func (s *stage) play(ctx context.Context, one *oneCase, of *step, faults plan, n int) (Seen, error) {
	called, _ := s.tools.find(of.Call.Tool)
	s.ledger.begin(called, faults, of.Answer)
	id := identityOf(of.Call, n)
	res, err := sidecallv1.NewToolServiceClient(s.conn).ExecuteTool(ctx, &sidecallv1.ExecuteToolRequest{
		ToolUseId: id.id, ToolName: id.tool, ArgumentsJson: argumentsOf(of.Call),
		ConversationId: id.conversation, TurnId: id.turn, PromptId: "prompt", Profile: one.Profile,
	})
	if err != nil {
		return Seen{}, fmt.Errorf("call %d: %w", n+1, err)
	}
	asked, effects := s.ledger.counted(called)
	return s.seen(res, asked, effects), nil
}

// argumentsOf are the arguments as they are sent.
func argumentsOf(c *call) string {
	var raw string
	if json.Unmarshal(c.Arguments, &raw) == nil {
		return raw
	}
	return string(c.Arguments)
}

// seen is what a response says, at the pace of life.
func (s *stage) seen(res *sidecallv1.ExecuteToolResponse, asked, effects int) Seen {
	e, recovery := res.GetError(), res.GetRecovery()
	seen := Seen{
		Outcome: outcomes[res.GetOutcome()], Code: e.GetCode(), Field: e.GetField(), Constraint: e.GetConstraint(), Received: e.GetReceived(),
		Hint: e.GetHint(), Content: res.GetContent(), Alternatives: recovery.GetAllowedAlternatives(), Suggested: recovery.GetSuggestedArgumentsJson(),
		Retryable: recovery.GetRetryable(), RetriesExhausted: recovery.GetRetriesExhausted(),
		Replayed: res.GetReplayed(), Truncated: res.GetTruncation() != nil, Attempts: asked, Effects: effects,
	}
	if e == nil {
		return seen
	}
	seen.Class = string(tool.Code(e.GetCode()).Class())
	seen.RetryAfter = Span(recovery.GetRetryAfter().AsDuration())
	if ownTimes(tool.Code(e.GetCode()), int(recovery.GetAttempts())) {
		return seen
	}
	seen.RetryAfter = Span(s.pace.long(time.Duration(seen.RetryAfter)))
	told := proto.CloneOf(e)
	told.Hint, told.Constraint = s.pace.tell(e.GetHint()), s.pace.tell(e.GetConstraint())
	seen.Hint, seen.Constraint = told.GetHint(), told.GetConstraint()
	if told.GetHint() != e.GetHint() || told.GetConstraint() != e.GetConstraint() {
		seen.Content = s.pace.tell(seen.Content)
	}
	return seen
}

// The outcomes, by the names that cases have for them.
const (
	outcomeOK      = "ok"
	outcomeEmpty   = "empty"
	outcomePartial = "partial"
	outcomeError   = "error"
)

var outcomes = map[sidecallv1.Outcome]string{
	sidecallv1.Outcome_OUTCOME_OK:      outcomeOK,
	sidecallv1.Outcome_OUTCOME_EMPTY:   outcomeEmpty,
	sidecallv1.Outcome_OUTCOME_PARTIAL: outcomePartial,
	sidecallv1.Outcome_OUTCOME_ERROR:   outcomeError,
}
