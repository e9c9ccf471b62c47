package server

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Names of the metrics that an overview is made of, and of their label of tools.
const (
	callsMetric      = "sidecall_calls_total"
	durationMetric   = "gen_ai_execute_tool_duration_seconds"
	perPromptMetric  = "sidecall_prompt_calls"
	recoveriesMetric = "sidecall_recoveries_total"
	replaysMetric    = "sidecall_replays_total"

	toolLabel      = "gen_ai_tool_name"
	errorLabel     = "error_type"
	recoveredLabel = "sidecall_recovered"
)

// GetOverview tells how the tools are, and the numbers of the loops, by the sidecar's own metrics.
func (o *Operator) GetOverview(_ context.Context, _ *sidecallv1.GetOverviewRequest) (*sidecallv1.GetOverviewResponse, error) {
	seen, err := readMetrics(o.Metrics)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "the metrics cannot be read: %v", err)
	}
	res := &sidecallv1.GetOverviewResponse{Numbers: seen.numbers()}
	snapshot := o.Executor.Catalog.Snapshot()
	for _, name := range snapshot.Names() {
		if route, ok := snapshot.Lookup(name); ok {
			t := overviewOf(route)
			seen.tool(t)
			res.Tools = append(res.Tools, t)
		}
	}
	o.fit(res)
	return res, nil
}

// maxOverviewBytes keeps an overview below what a client of gRPC receives.
const maxOverviewBytes = 3 << 20

// fit leaves out of an overview the tools that do not fit, and adds the error texts that do.
func (o *Operator) fit(res *sidecallv1.GetOverviewResponse) {
	const field = 8 // is more than what stands before a tool
	room := maxOverviewBytes
	for i, t := range res.GetTools() {
		if room -= proto.Size(t) + field; room < 0 {
			res.ToolsCut = int32(len(res.GetTools()) - i)
			res.Tools = res.GetTools()[:i]
			break
		}
	}
	for _, t := range res.GetTools() {
		without := proto.Size(t)
		t.ErrorTexts = o.Executor.ErrorTexts(t.GetToolName())
		if room -= proto.Size(t) - without; room < 0 && len(t.GetErrorTexts()) > 0 {
			t.ErrorTexts = nil
			res.ToolsCut++
		}
	}
}

func overviewOf(route *catalog.Route) *sidecallv1.ToolOverview {
	// Of the two the state that lets less through.
	state := max(route.Breaker.State(), route.Connection.State())
	t := &sidecallv1.ToolOverview{
		ToolName: route.Tool.Name, Effect: result.Effect(route.Tool.Effect), Backend: route.Tool.Backend,
		Breaker: state.String(), Refused: route.Refused,
	}
	if blocked := route.Blocked(); blocked > 0 {
		t.BlockedFor = durationpb.New(blocked)
	}
	requests, retries := route.Retries.Recent()
	t.RecentRequests, t.RecentRetries = int32(min(requests, math.MaxInt32)), int32(min(retries, math.MaxInt32))
	return t
}

// series are metrics by their name.
type series map[string][]*dto.Metric

// seenMetrics are the metrics of an overview, and those that are of a tool once more, by it: there
// may be thousands of tools.
type seenMetrics struct {
	all    series
	byTool map[string]series
}

func readMetrics(from prometheus.Gatherer) (seenMetrics, error) {
	seen := seenMetrics{series{}, map[string]series{}}
	if from == nil {
		return seen, nil
	}
	families, err := from.Gather()
	for _, family := range families {
		name := family.GetName()
		seen.all[name] = family.GetMetric()
		if name != callsMetric && name != durationMetric {
			continue
		}
		for _, m := range family.GetMetric() {
			of := labels(m)(toolLabel)
			if seen.byTool[of] == nil {
				seen.byTool[of] = series{}
			}
			seen.byTool[of][name] = append(seen.byTool[of][name], m)
		}
	}
	return seen, err
}

// sum adds up a counter, of the series that count.
func (s series) sum(name string, counts func(label func(name string) string) bool) (n float64) {
	for _, m := range s[name] {
		if counts(labels(m)) {
			n += m.GetCounter().GetValue()
		}
	}
	return n
}

func labels(m *dto.Metric) func(name string) string {
	return func(name string) string {
		for _, l := range m.GetLabel() {
			if l.GetName() == name {
				return l.GetValue()
			}
		}
		return ""
	}
}

func every(func(string) string) bool { return true }

func (m seenMetrics) numbers() *sidecallv1.LoopNumbers {
	s := m.all
	prompts := s.histogram(perPromptMetric)
	calls, replays := s.sum(callsMetric, every), s.sum(replaysMetric, every)
	all := s.sum(recoveriesMetric, every)
	n := &sidecallv1.LoopNumbers{
		Prompts: int64(prompts.count), CallsPerPromptMedian: prompts.quantile(0.5), CallsPerPromptP99: prompts.quantile(0.99),
		Recoveries: int64(all), Calls: int64(calls),
	}
	if all > 0 {
		n.RecoveryRate = s.sum(recoveriesMetric, func(label func(string) string) bool { return label(recoveredLabel) == "true" }) / all
	}
	if calls > 0 {
		n.ReplayRate = replays / calls
	}
	return n
}

// tool fills in what the metrics say of a tool.
func (m seenMetrics) tool(t *sidecallv1.ToolOverview) {
	its := m.byTool[t.GetToolName()]
	t.Calls = int64(its.sum(callsMetric, every))
	t.Errors = int64(its.sum(callsMetric, func(label func(string) string) bool { return label(errorLabel) != "" }))
	if took := its.histogram(durationMetric); took.count > 0 {
		t.P50, t.P99 = seconds(took.quantile(0.5)), seconds(took.quantile(0.99))
	}
}

func seconds(s float64) *durationpb.Duration {
	return durationpb.New(time.Duration(s * float64(time.Second)))
}

// histogram is the sum of some series of a histogram.
type histogram struct {
	count  float64
	bounds []float64
	below  []float64 // how many are not above each bound
}

func (s series) histogram(name string) (h histogram) {
	for _, m := range s[name] {
		h.count += float64(m.GetHistogram().GetSampleCount())
		for i, bucket := range m.GetHistogram().GetBucket() {
			if i == len(h.bounds) { // all series have the same bounds
				h.bounds, h.below = append(h.bounds, bucket.GetUpperBound()), append(h.below, 0)
			}
			h.below[i] += float64(bucket.GetCumulativeCount())
		}
	}
	return h
}

// quantile is estimated as Prometheus does: evenly spread within a bucket; the last bound for what is
// above all of them.
func (h *histogram) quantile(q float64) float64 {
	rank, lower, before := q*h.count, 0.0, 0.0
	for i, below := range h.below {
		if upper := h.bounds[i]; below >= rank && below > before && !math.IsInf(upper, 1) {
			return lower + (upper-lower)*(rank-before)/(below-before)
		} else if !math.IsInf(upper, 1) {
			lower, before = upper, below
		}
	}
	return lower
}
