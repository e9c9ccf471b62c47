// Promql evaluates queries over pages of /metrics as Prometheus itself would: with
// its parser of the text format and its engine. It is for tests; the sidecar does not
// import any of it.
//
// It reads {"pages": ["...", ...], "queries": ["...", ...]} and writes, for each query,
// {"series": [{"labels": {...}, "value": 1.5}, ...]} or {"error": "..."}. The pages are
// scrapes of one target in their order. They lie within the hour before the instant of
// the queries, the first almost an hour before the last, so that increases over [1h]
// are those between the two.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

type question struct {
	Pages   []string `json:"pages"`
	Queries []string `json:"queries"`
}

type answer struct {
	Series []series `json:"series"`
	Error  string   `json:"error,omitempty"`
}

// series is one of a query's result. A value that is no number is a string (NaN,
// +Inf), which JSON has no number for.
type series struct {
	Labels map[string]string `json:"labels"`
	Value  any               `json:"value"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "promql:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	var asked question
	if err := json.NewDecoder(in).Decode(&asked); err != nil {
		return err
	}
	now := time.Unix(1_000_000_000, 0) // any: nothing here depends on the clock
	pages, err := read(asked.Pages, now)
	if err != nil {
		return err
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
		Parser: parser.NewParser(parser.Options{}),
	})
	answers := make([]answer, len(asked.Queries))
	for i, query := range asked.Queries {
		if answers[i].Series, err = evaluate(engine, pages, query, now); err != nil {
			answers[i].Error = err.Error()
		}
	}
	return json.NewEncoder(out).Encode(answers)
}

// scraped is a time series as it is stored.
type scraped struct {
	labels  labels.Labels
	samples []chunks.Sample
}

// sample is a chunks.Sample of a number.
type sample struct {
	at    int64 // in milliseconds
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// read reads scrapes, the last of them made now.
func read(pages []string, now time.Time) ([]*scraped, error) {
	byLabels := make(map[string]*scraped)
	var all []*scraped
	for i, page := range pages {
		at := now.UnixMilli()
		if last := len(pages) - 1; i < last {
			// An hour before now is not within [1h] any more.
			at += int64(i)*time.Hour.Milliseconds()/int64(last) - time.Hour.Milliseconds() + 1
		}
		p, err := textparse.New([]byte(page), "text/plain; version=0.0.4", nil, textparse.ParserOptions{})
		if err != nil {
			return nil, err
		}
		for {
			entry, err := p.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("page %d: %w", i, err)
			}
			if entry != textparse.EntrySeries {
				continue
			}
			var named labels.Labels
			p.Labels(&named)
			_, _, value := p.Series()
			s, known := byLabels[named.String()]
			if !known {
				s = &scraped{labels: named}
				byLabels[named.String()] = s
				all = append(all, s)
			}
			s.samples = append(s.samples, sample{at, value})
		}
	}
	return all, nil
}

// evaluate evaluates one query at an instant.
func evaluate(engine *promql.Engine, pages []*scraped, query string, now time.Time) ([]series, error) {
	stored := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			return selected(pages, matchers)
		},
	}}
	q, err := engine.NewInstantQuery(context.Background(), stored, nil, query, now)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	vector, err := q.Exec(context.Background()).Vector()
	if err != nil {
		return nil, err
	}
	found := make([]series, len(vector))
	for i, sample := range vector {
		found[i] = series{Labels: sample.Metric.Map(), Value: sample.F}
		if math.IsNaN(sample.F) || math.IsInf(sample.F, 0) {
			found[i].Value = fmt.Sprint(sample.F)
		}
	}
	return found, nil
}

// selected are the series that all matchers match.
func selected(pages []*scraped, matchers []*labels.Matcher) storage.SeriesSet {
	found := &set{at: -1}
next:
	for _, s := range pages {
		for _, m := range matchers {
			if !m.Matches(s.labels.Get(m.Name)) {
				continue next
			}
		}
		found.all = append(found.all, storage.NewListSeries(s.labels, s.samples))
	}
	return found
}

// set is a storage.SeriesSet.
type set struct {
	all []storage.Series
	at  int
}

func (s *set) Next() bool { s.at++; return s.at < len(s.all) }

func (s *set) At() storage.Series { return s.all[s.at] }

func (*set) Err() error { return nil }

func (*set) Warnings() annotations.Annotations { return nil }
