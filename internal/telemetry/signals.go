package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// callBuckets are bounds of calls per prompt: each number by itself where a median
// lies, and the ceilings that profiles usually have.
var callBuckets = []float64{
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 22, 24, 25, 30, 35, 40, 50, 60, 80, 100, 150, 200, 300, 500, 1000,
}

// signals are the numbers that say whether a loop is well: calls per prompt,
// recoveries from errors, replays; and refusals and exits, by rule and reason.
type signals struct {
	logger  *slog.Logger
	prompts *prompts

	perPrompt metric.Int64Histogram
	profiles  sync.Map // of perPrompt: name → metric.MeasurementOption; as many as there are
	replays   metric.Int64Counter

	ended, refused       counts
	recovered, abandoned metric.MeasurementOption
	recoveries           metric.Int64Counter
}

// counts is a counter with one label, whose values are known before: each is there
// from the start, since a counter that comes into being with its first event has not
// risen by it.
type counts struct {
	counter metric.Int64Counter
	sets    map[string]metric.MeasurementOption
	other   string
}

func newCounts(counter metric.Int64Counter, label string, values []string, other string) counts {
	c := counts{counter: counter, sets: make(map[string]metric.MeasurementOption, len(values)), other: other}
	for _, value := range values {
		c.sets[value] = metric.WithAttributeSet(attribute.NewSet(attribute.String(label, value)))
		counter.Add(context.Background(), 0, c.sets[value])
	}
	return c
}

// known is the value that stands for one in the metric.
func (c counts) known(value string) string {
	if _, ok := c.sets[value]; ok {
		return value
	}
	return c.other
}

func (c counts) add(value string) {
	c.counter.Add(context.Background(), 1, c.sets[c.known(value)])
}

func newSignals(meter metric.Meter, logger *slog.Logger) (*signals, error) {
	s := &signals{logger: logger}
	var err error
	counter := func(name, description string) metric.Int64Counter {
		c, e := meter.Int64Counter(name, metric.WithDescription(description))
		if err == nil {
			err = e
		}
		return c
	}
	s.replays = counter("sidecall.replays", "Answers to calls that had been made before.")
	s.recoveries = counter("sidecall.recoveries",
		"Errors of a tool that a success of it followed on in the same prompt (recovered), and prompts that ended badly after one without it.")
	prompts := counter("sidecall.prompts", "Prompts that have ended, and why.")
	refusals := counter("sidecall.refusals", "Calls that were refused before anything was sent, and the rule that did.")
	histogram, e := meter.Int64Histogram("sidecall.prompt.calls", metric.WithExplicitBucketBoundaries(callBuckets...),
		metric.WithDescription("Calls that the model made in a prompt, counted when it has ended."))
	if err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	s.perPrompt = histogram
	s.ended = newCounts(prompts, "sidecall.exit", exits, exitOther)
	s.refused = newCounts(refusals, "sidecall.rule", rules, ruleOther)
	s.recovered = metric.WithAttributeSet(attribute.NewSet(attribute.Bool("sidecall.recovered", true)))
	s.abandoned = metric.WithAttributeSet(attribute.NewSet(attribute.Bool("sidecall.recovered", false)))
	s.recoveries.Add(context.Background(), 0, s.recovered)
	s.recoveries.Add(context.Background(), 0, s.abandoned)
	s.replays.Add(context.Background(), 0)
	s.prompts = newPrompts(maxPrompts, func(p *prompt, exit string) { s.over(p, exit, exit, true) })
	return s, nil
}

// called counts a call that has its answer.
func (s *signals) called(ctx context.Context, c *Call, end *CallEnd, now time.Time) {
	if end.Replayed {
		s.replays.Add(ctx, 1)
	}
	if end.Rule != "" {
		s.refused.add(end.Rule)
	}
	if n := s.prompts.called(c, end, now); n > 0 {
		s.recoveries.Add(ctx, int64(n), s.recovered)
	}
}

// StartPrompt says that a prompt begins: it is counted also if nothing is called in
// it. The first call of a prompt begins it too.
func (r *Recorder) StartPrompt(key PromptKey, profile string) {
	if key.named() {
		r.signals.prompts.begin(key, profile, time.Now())
	}
}

// EndPrompt says that a prompt has ended, and why: end_turn, max_tokens, refusal,
// budget_exceeded, error, loop_detected, cancelled or timeout; anything else is
// counted as other. Said again it counts nothing.
func (r *Recorder) EndPrompt(key PromptKey, reason string) {
	if !key.named() {
		return
	}
	exit := r.signals.ended.known(reason)
	if exit == exitIdle || exit == exitEvicted { // these nobody says
		exit = exitOther
	}
	if p, heard := r.signals.prompts.end(key, time.Now()); p != nil {
		r.signals.over(p, exit, reason, heard)
	}
}

func (s *signals) profile(name string) metric.MeasurementOption {
	if set, ok := s.profiles.Load(name); ok {
		return set.(metric.MeasurementOption)
	}
	set := metric.WithAttributeSet(attribute.NewSet(attribute.String("sidecall.profile", name)))
	s.profiles.Store(name, set)
	return set
}

// over counts a prompt that has ended. heard: its calls were made here, and not all
// of them at another replica.
func (s *signals) over(p *prompt, exit, reason string, heard bool) {
	ctx := context.Background()
	s.ended.add(exit)
	if heard {
		s.perPrompt.Record(ctx, int64(p.calls), s.profile(p.profile))
	}
	if len(p.open) > 0 && p.endedBadly(exit) {
		s.recoveries.Add(ctx, 1, s.abandoned)
	}
	if exit == exitEvicted { // when there is too much to do, a line per call is enough
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	attrs = append(attrs,
		slog.String("conversation", p.key.Conversation), slog.String("prompt", p.key.Prompt), slog.String("exit", exit),
		slog.Int("calls", p.calls), slog.Int("errors", p.errors), slog.Int("recovered", p.recovered))
	if len(p.open) > 0 {
		attrs = append(attrs, slog.Any("unrecovered", p.unrecovered()))
	}
	if reason != exit {
		attrs = append(attrs, slog.String("reason", reason))
	}
	if !heard {
		attrs = append(attrs, slog.Bool("calls_elsewhere", true))
	}
	s.logger.LogAttrs(ctx, slog.LevelInfo, "prompt", attrs...)
}
