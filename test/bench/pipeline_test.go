// Package bench measures what the parts of the hot path cost. The comparison
// with the floor, which is what counts, is `make bench`.
package bench

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/rules/history/failures"
	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/retry"
)

// instant is a backend that answers at once.
type instant struct{ reply []byte }

func (b instant) Invoke(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
	return tool.Reply{Status: 200, Text: b.reply, JSON: true}, nil
}

func (instant) Close(context.Context) error { return nil }

const inputSchema = `{"type":"object","properties":{"order_id":{"type":"string","pattern":"^A-[0-9]+$"},"cents":{"type":"integer","minimum":1},
"note":{"type":"string","maxLength":200},"tags":{"type":"array","items":{"type":"string","enum":["fragile","gift","express"]},"maxItems":5}},
"required":["order_id","cents"],"additionalProperties":false}`

// options are what of the loop around the call is on.
type options struct {
	counted bool // the budget of a prompt
	watched bool // the loop guard
	told    bool // failed calls are told what was tried before, for which each asks for two logs
}

func newExecutor(b testing.TB, on options) *call.Executor {
	b.Helper()
	observed, err := telemetry.Start(b.Context(), telemetry.Service{Version: "bench"}, slog.NewJSONHandler(io.Discard, nil)) //nolint:sloglint // the cost of the log line belongs to the call
	if err != nil {
		b.Fatal(err)
	}
	compiled, err := schema.Compile("refund", []byte(inputSchema), schema.Options{})
	if err != nil {
		b.Fatal(err)
	}
	program, err := interpret.Compile(interpret.Config{Errors: []interpret.Rule{{When: "status == 404", Code: tool.CodeNotFound}}})
	if err != nil {
		b.Fatal(err)
	}
	profile := catalog.Profile{Name: "all", Tools: []string{"*"}}
	if on.counted {
		profile.MaxCalls = 1 << 30
	}
	if on.watched {
		if profile.Guard, err = guard.New(guard.Thresholds{}); err != nil {
			b.Fatal(err)
		}
	}
	generation := catalog.NewGeneration(
		catalog.Profiles{Default: "all", ByName: map[string]catalog.Profile{"all": profile}},
		catalog.Limits{KeepOutputBytes: 10 << 20, OutputTTL: time.Hour, BatchParallel: 16})
	var recovery *catalog.Recovery
	if on.told {
		advisor, err := failures.New(failures.Options{})
		if err != nil {
			b.Fatal(err)
		}
		targeting, err := failures.NewTargeting(nil, []byte(inputSchema), compiled.Secret)
		if err != nil {
			b.Fatal(err)
		}
		generation.Advise(catalog.Advice{Advisor: advisor, UnknownTools: true})
		recovery = &catalog.Recovery{Targeting: targeting}
	}
	generation.Set(catalog.ConfigSource, []*catalog.Route{{
		Recovery: recovery,
		Tool: tool.Tool{
			Name: "refund", InputSchema: json.RawMessage(inputSchema), Backend: "shop",
			Policy: tool.Policy{
				AttemptTimeout: 30 * time.Second, Deadline: time.Minute, MaxOutputChars: 8000, OutputStrategy: "auto",
				Retry: tool.Retry{MaxAttempts: 3, Base: time.Second, Multiplier: 2, Max: time.Second},
			},
		},
		Schema: compiled, Program: program, Target: "refund",
		Backend: instant{[]byte(`{"id":"re_1","order_id":"A-1","status":"refunded","cents":4200,"note":"two mugs"}`)},
		Breaker: breaker.New(breaker.Settings{Name: "shop"}), Retries: retry.NewBudget(retry.BudgetShare, retry.BudgetFloor), Slots: limit.NewBulkhead(1000),
	}})
	claims := dedupe.New(embedded.InMemory(embedded.Options{MaxBytes: 16 << 30}), dedupe.Options{})
	b.Cleanup(func() {
		if err := claims.Close(context.Background()); err != nil {
			b.Error(err)
		}
		if err := observed.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return call.New(call.Parts{
		Catalog: catalog.New(generation), Dedupe: claims, Recorder: observed.Recorder, Limits: call.Limits{Slots: limit.NewBulkhead(10_000)},
	})
}

// callsOfPrompt is how many calls each prompt makes.
const callsOfPrompt = 25

// BenchmarkPipeline is everything a call costs but the network and the store:
// validation, claim, guards, interpretation, shaping, record, log line, metrics; with
// none of the loop around it, with each part of that, and with all.
func BenchmarkPipeline(b *testing.B) {
	for name, on := range map[string]options{
		"alone": {}, "counted": {counted: true}, "watched": {watched: true}, "told": {told: true}, "all": {true, true, true},
	} {
		b.Run(name, func(b *testing.B) { pipeline(b, on) })
	}
}

func pipeline(b *testing.B, on options) {
	e := newExecutor(b, on)
	var n atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			oneCall(b, e, n.Add(1))
		}
	})
}

// oneCall makes a call of its own for each number.
func oneCall(t testing.TB, e *call.Executor, n int64) {
	id := strconv.FormatInt(n, 10)
	lease := e.Catalog.Lease()
	defer lease.Release()
	res := e.Execute(context.Background(), lease, call.NewRequest("", &sidecallv1.ExecuteToolRequest{
		ToolUseId: "toolu_" + id, ToolName: "refund", TurnId: "t",
		ConversationId: "c" + strconv.FormatInt(n%1000, 10), PromptId: "p" + strconv.FormatInt(n/1000/callsOfPrompt, 10),
		ArgumentsJson: `{"order_id":"A-` + id + `","cents":4200,"note":"two mugs, one with a chip","tags":["fragile","gift"]}`,
	}))
	if res.GetIsError() {
		t.Error(res.GetContent())
	}
}
