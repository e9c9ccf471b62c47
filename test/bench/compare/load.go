package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// arguments is what a call of the benchmark carries: another order each, as one that
// repeats the same payment would be refused.
func arguments(n int64) string {
	return `{"order_id":"A-` + strconv.FormatInt(n, 10) + `","cents":4200,"note":"two mugs, one with a chip","tags":["fragile","gift"]}`
}

// Calls of each contestant come from so many conversations, which make so many each in a prompt.
const conversations, callsOfPrompt = 1000, 25

// caller makes one call; n is unique in the run.
type caller func(ctx context.Context, n int64) error

// sample is what one round of load measured.
type sample struct {
	calls    int
	elapsed  time.Duration
	p50, p99 time.Duration
	cpu      time.Duration // of the server process, user and system
	redis    time.Duration // of Redis
}

func (s sample) perSecond() float64 { return float64(s.calls) / s.elapsed.Seconds() }

func (s sample) redisPerCall() time.Duration { return s.redis / time.Duration(max(s.calls, 1)) }

func (s sample) cpuPerCall() time.Duration { return s.cpu / time.Duration(max(s.calls, 1)) }

// load keeps a number of calls in flight for a while and measures each.
func load(ctx context.Context, call caller, inFlight int, d time.Duration, seq *atomic.Int64) (sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	latencies := make([][]time.Duration, inFlight)
	start := time.Now()
	end := start.Add(d)
	var wg sync.WaitGroup
	for i := range inFlight {
		wg.Go(func() {
			for {
				before := time.Now()
				if before.After(end) || ctx.Err() != nil {
					return
				}
				if err := call(ctx, seq.Add(1)); err != nil {
					cancel(err)
					return
				}
				latencies[i] = append(latencies[i], time.Since(before))
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	if err := context.Cause(ctx); err != nil {
		return sample{}, err
	}
	all := slices.Concat(latencies...)
	if len(all) == 0 {
		return sample{}, fmt.Errorf("no call was made in %s", d)
	}
	slices.Sort(all)
	return sample{
		calls: len(all), elapsed: elapsed,
		p50: all[len(all)/2], p99: all[len(all)*99/100],
	}, nil
}

// grpcCaller calls the tool through a server at addr.
func grpcCaller(addr, tool, run string) (caller, io.Closer, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		return nil, nil, err
	}
	client := sidecallv1.NewToolServiceClient(conn)
	return func(ctx context.Context, n int64) error {
		res, err := client.ExecuteTool(ctx, &sidecallv1.ExecuteToolRequest{
			ToolUseId: run + strconv.FormatInt(n, 36), ToolName: tool, ArgumentsJson: arguments(n),
			ConversationId: run + strconv.FormatInt(n%conversations, 10), TurnId: "t", PromptId: "p" + strconv.FormatInt(n/conversations/callsOfPrompt, 10),
		})
		if err != nil {
			return err
		}
		if res.GetIsError() || res.GetReplayed() {
			return fmt.Errorf("call %d: %s", n, res.GetContent())
		}
		return nil
	}, conn, nil
}

// directCaller calls the tool with nothing in between.
func directCaller(url string) caller {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	return func(ctx context.Context, n int64) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(arguments(n)))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close() //nolint:errcheck // read to its end below
		_, err = io.Copy(io.Discard, res.Body)
		return err
	}
}
