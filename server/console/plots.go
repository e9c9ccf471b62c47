package console

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// sampleEvery is how often the numbers are looked at, keptSamples how many are kept: an hour.
	sampleEvery = 10 * time.Second
	keptSamples = 360
)

// samples are the numbers of the last hour, the latest last.
type samples struct {
	mu   sync.Mutex
	kept [][4]float64
}

// Sample looks at the numbers now and then, until ctx ends. One that cannot be looked at is left out.
func (c *Console) Sample(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		within, cancel := context.WithTimeout(ctx, askTimeout)
		if res, err := c.options.Operator.GetOverview(within, &sidecallv1.GetOverviewRequest{}); err == nil {
			c.samples.add(res.GetNumbers())
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func fourOf(n *sidecallv1.LoopNumbers) [4]float64 {
	return [4]float64{n.GetCallsPerPromptMedian(), n.GetCallsPerPromptP99(), n.GetRecoveryRate(), n.GetReplayRate()}
}

func (s *samples) add(n *sidecallv1.LoopNumbers) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept = append(s.kept, fourOf(n)); len(s.kept) > keptSamples {
		s.kept = s.kept[1:]
	}
}

// plot is a number over time, as a line in a box of 100 by 24.
type plot struct {
	Name, Now, Points string
}

// plots are the four numbers, each with its line; now is the latest of them.
func (s *samples) plots(now *sidecallv1.LoopNumbers) []plot {
	s.mu.Lock()
	all := slices.Concat(s.kept, [][4]float64{fourOf(now)})
	s.mu.Unlock()
	shown := [4]plot{
		{Name: "calls per prompt, median", Now: fmt.Sprintf("%.1f", now.GetCallsPerPromptMedian())},
		{Name: "calls per prompt, p99", Now: fmt.Sprintf("%.1f", now.GetCallsPerPromptP99())},
		{Name: "errors recovered from", Now: fmt.Sprintf("%.0f %% of %d", 100*now.GetRecoveryRate(), now.GetRecoveries())},
		{Name: "calls replayed", Now: fmt.Sprintf("%.1f %%", 100*now.GetReplayRate())},
	}
	for i := range shown {
		shown[i].Points = line(all, i)
	}
	return shown[:]
}

// line is one of the four over time, from 0 to its highest.
func line(all [][4]float64, which int) string {
	highest := 0.0
	for _, sample := range all {
		highest = max(highest, sample[which])
	}
	points := make([]string, len(all))
	for i, sample := range all {
		x, y := 100.0, 23.0
		if len(all) > 1 {
			x = 100 * float64(i) / float64(len(all)-1)
		}
		if highest > 0 {
			y = 23 - 22*sample[which]/highest
		}
		points[i] = fmt.Sprintf("%.1f,%.1f", x, y)
	}
	return strings.Join(points, " ")
}
