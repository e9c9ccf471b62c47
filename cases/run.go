package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/assembly"
	"github.com/sidecall/sidecall/config"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/tool"
)

// Suite is a file of cases that were held against a config, and can be run.
type Suite struct {
	doc     *config.Document[file]
	config  string // its path, under which the text is read again for each case
	text    []byte
	options Options
	chosen  []int // the cases to run, by their places
}

// Options are what a suite is told beside its files.
type Options struct {
	// Program is a command line that runs Command with the address that follows as its
	// last argument. Without one, cases of exec backends are refused.
	Program []string
}

// Load reads a file of cases and the config that they are for, and finds what
// cannot be. The error is config.Problems of one of the two files.
func Load(cases, configFile string, options Options) (*Suite, error) {
	doc, err := config.ReadDocument[file](cases)
	if err != nil {
		return nil, err
	}
	text, err := config.ReadRegular(configFile, config.MaxFileBytes)
	if err != nil {
		return nil, config.Problems{{File: configFile, Message: "cannot read the config file: " + err.Error(), Rule: config.RuleSyntax}}
	}
	s := &Suite{doc: doc, config: configFile, text: text, options: options}
	cfg, err := s.fresh()
	if err != nil {
		return nil, err
	}
	if err := check(doc, cfg, options.Program != nil); err != nil {
		return nil, err
	}
	if err := compiles(cfg, options.Program); err != nil {
		return nil, err
	}
	for i := range doc.Value.Cases {
		s.chosen = append(s.chosen, i)
	}
	return s, nil
}

// fresh is the config as a case begins with it, which it may change.
func (s *Suite) fresh() (*config.Config, error) { return config.Parse(s.config, s.text, environment{}) }

// compiles finds what is wrong with a config beyond its text, as a start would. It
// takes the config over.
func compiles(cfg *config.Config, program []string) error {
	isolate(cfg, "unix:///nowhere")
	for name := range cfg.Backends {
		redirect(cfg, name, "http://127.0.0.1:1", program)
	}
	offer, err := assembly.NewOffer(cfg, version)
	if err != nil {
		return err
	}
	return offer.Close(context.Background())
}

// Only is the suite of those cases whose names are chosen.
func (s *Suite) Only(chosen func(name string) bool) *Suite {
	some := *s
	some.chosen = slices.DeleteFunc(slices.Clone(s.chosen), func(i int) bool { return !chosen(s.doc.Value.Cases[i].Name) })
	return &some
}

// Len is how many cases there are.
func (s *Suite) Len() int { return len(s.chosen) }

// atOnce is how many cases run at the same time: most of them wait.
const atOnce = 4

// settled is a case that has run; err is not of the case: something is not there
// that a sidecar needs.
type settled struct {
	result Result
	err    error
}

// Run runs the cases, some at the same time, and tells the results in the order of
// the file. After an error no further case is begun.
func (s *Suite) Run(ctx context.Context, tell func(Result)) error {
	whole := ctx
	ctx, cancel := context.WithCancel(whole)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	ended, seats := make([]chan settled, len(s.chosen)), make(chan struct{}, atOnce)
	for n := range ended {
		ended[n] = make(chan settled, 1)
	}
	running.Go(func() {
		for n, i := range s.chosen {
			select {
			case seats <- struct{}{}:
			case <-ctx.Done():
				ended[n] <- settled{err: ctx.Err()}
				return
			}
			running.Go(func() {
				defer func() { <-seats }()
				result, err := untilUndisturbed(func() (Result, bool, error) { return s.run(ctx, i) })
				ended[n] <- settled{result, err}
			})
		}
	})
	for n := range ended {
		one := <-ended[n]
		if whole.Err() != nil {
			return whole.Err()
		}
		if one.err != nil {
			return fmt.Errorf("%s: %w", s.doc.Value.Cases[s.chosen[n]].Name, one.err)
		}
		tell(one.result)
	}
	return nil
}

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
		seen, err := on.play(ctx, one, &step, n)
		if err != nil {
			return result, false, err
		}
		result.Calls = append(result.Calls, CallResult{Line: s.line(i, one.stepPath(n)), Tool: step.Call.Tool, Seen: seen, Unmet: judge(step.Expect, &seen)})
	}
	result.Took, result.Met = Span(time.Since(began).Round(time.Millisecond)), result.met()
	return result, false, nil
}

// line is where a case, or a call of it, stands.
func (s *Suite) line(i int, step []string) int {
	return s.doc.Where(append([]string{"cases", itoa(i)}, step...)...).Line
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
func (s *stage) play(ctx context.Context, one *oneCase, of *step, n int) (Seen, error) {
	called, _ := s.tools.find(of.Call.Tool)
	faults, err := readPlan(of.Fault)
	if err != nil {
		return Seen{}, err // which check has looked for
	}
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
		Hint: e.GetHint(), Content: res.GetContent(), Alternatives: recovery.GetAllowedAlternatives(),
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
