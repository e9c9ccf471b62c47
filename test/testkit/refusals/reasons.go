package refusals

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// Reasons are all of them, in the order in which a call meets them.
var Reasons = slices.Concat(unresolved, withoutRoom, invalid, unaffordable, repeated, guarded, changed)

// unresolved: there is no such tool for the caller.
var unresolved = []Reason{
	{
		Name: "more labels than there may be", Code: tool.CodeInvalidArgs, Says: "at most 16 labels", Words: []string{"explain.TooManyLabels"},
		arrange: func(w *world) {
			w.req.Labels = map[string]string{}
			for n := range 17 {
				w.req.Labels[fmt.Sprint(n)] = "x"
			}
		},
	},
	{
		Name: "a label too long", Code: tool.CodeInvalidArgs, Says: "at most 256 are taken", Words: []string{"explain.TooLong"},
		arrange: func(w *world) { w.req.Labels = map[string]string{"team": string(make([]byte, 257))} },
	},
	{
		Name: "a label that is no text", Code: tool.CodeInvalidArgs, Says: "UTF-8", Words: []string{"explain.NotUTF8"},
		arrange: func(w *world) { w.req.Labels = map[string]string{"team": "\xff"} },
	},
	{
		Name: "a negative number", Code: tool.CodeInvalidArgs, Says: "must not be negative", Words: []string{"explain.Negative"},
		arrange: func(w *world) { w.req.TokensUsed = -1 },
	},
	{
		Name: "the profile is gone", Code: tool.CodePermissionDenied, Says: "is not offered here", Words: []string{"explain.UnknownProfile"},
		arrange: func(w *world) { w.req.Profile = "gone" },
	},
	{
		Name: "a budget, and no conversation to count in", Code: tool.CodeInvalidArgs, Says: "is required with prompt_id", Nowhere: true, Words: []string{"budget.adrift"},
		arrange: func(w *world) {
			w.profile(catalog.Profile{MaxCalls: 5})
			w.req.PromptId = "p1"
		},
	},
	{
		Name: "the tool is gone", Code: tool.CodeUnknownTool, Says: "must name a registered tool",
		arrange: func(w *world) { w.now() },
	},
	{
		Name: "the tool is renamed", Code: tool.CodeUnknownTool, Says: "must name a registered tool",
		arrange: func(w *world) { w.now(w.tool("charge_keyed", tool.Keyed, w.pays)) },
	},
	{
		Name: "the tool is not discovered yet", Code: tool.CodeDependencyUnavailable, Says: "are not known yet", Words: []string{"explain.Undiscovered"},
		arrange: func(w *world) {
			w.now()
			w.Generation.Expect("till", catalog.Undiscovered{Prefix: "char"})
		},
	},
	{
		Name: "the profile is narrower", Code: tool.CodePermissionDenied, Says: "may not call charge", Words: []string{"explain.Forbidden"},
		arrange: func(w *world) { w.req.Profile = "narrow" },
	},
	{
		Name: "the tool says something else of itself", Code: tool.CodePermissionDenied, Says: "not what was pinned", Words: []string{"explain.Pinned"},
		arrange: func(w *world) { w.now(w.charge(func(r *catalog.Route) { r.Refused = "it is not what was pinned" })) },
	},
}

// withoutRoom: it may run, but not now.
var withoutRoom = []Reason{
	{
		Name: "the sidecar is full", Code: tool.CodeOverloaded, Says: "this sidecar has as many calls", Words: []string{"explain.AtCapacity"},
		arrange: func(w *world) { w.With(func(p *call.Parts) { p.Slots = full() }) },
	},
	{
		Name: "the sidecar's memory is full", Code: tool.CodeOverloaded, Says: "as many bytes", Words: []string{"explain.AtCapacity"},
		arrange: func(w *world) {
			bytes, load := limit.NewBytes(8), new(limit.Load)
			load.Of(bytes)
			load.Take(8)
			w.With(func(p *call.Parts) { p.Bytes = bytes })
		},
	},
	{
		Name: "the tool is full", Code: tool.CodeOverloaded, Says: "the tool charge has", Words: []string{"explain.AtCapacity"},
		arrange: func(w *world) { w.now(w.charge(func(r *catalog.Route) { r.ToolSlots = full() })) },
	},
	{
		Name: "the backend is full", Code: tool.CodeOverloaded, Says: "the backend shop has", Words: []string{"explain.AtCapacity"},
		arrange: func(w *world) { w.now(w.charge(func(r *catalog.Route) { r.Slots = full() })) },
	},
	{
		Name: "the backend's queue is full", Code: tool.CodeOverloaded, Says: "in time", Words: []string{"explain.AtCapacity"},
		arrange: func(w *world) { w.now(w.charge(func(r *catalog.Route) { r.Capacity = crowded() })) },
	},
}

// invalid: it cannot be made as it is.
var invalid = []Reason{
	{
		Name: "an argument is required now", Code: tool.CodeInvalidArgs, Says: "required",
		arrange: func(w *world) { w.now(w.charge(withSchema(needsReason))) },
	},
	{
		Name: "an argument is of another type now", Code: tool.CodeInvalidArgs, Says: "integer",
		arrange: func(w *world) {
			w.now(w.charge(withSchema(`{"type":"object","properties":{"order_id":{"type":"integer"}}}`)))
		},
	},
	{
		Name: "the arguments are no JSON", Code: tool.CodeInvalidArgs, Says: "must be one JSON object", Mismatch: true,
		arrange: func(w *world) { w.req.ArgumentsJson = `{"order_id":` },
	},
	{
		Name: "a number out of range", Code: tool.CodeInvalidArgs, Says: "out of range", Mismatch: true,
		arrange: func(w *world) {
			w.now(w.charge(withSchema(`{"type":"object"}`)))
			w.req.ArgumentsJson = `{"order_id":1e999}`
		},
	},
	{
		Name: "an effect of a conversation, and none", Code: tool.CodeInvalidArgs, Says: "is required for charge", Nowhere: true, Words: []string{"explain.EffectAdrift"},
		arrange: func(w *world) { w.now(w.charge(byOrder)) },
	},
	{
		Name: "the same call in its batch", Code: tool.CodeLoopDetected, Says: "in one batch", Words: []string{"explain.Loop"},
		arrange: func(w *world) {
			w.watched()
			w.before = append(w.before, w.other("first"))
		},
	},
	{
		Name: "the same mistake again and again", Code: tool.CodeLoopDetected, Says: "the same outcome", Words: []string{"explain.Loop"},
		arrange: func(w *world) {
			w.watched()
			w.now(w.charge(withSchema(needsReason)))
			w.untilRefused(tool.CodeInvalidArgs, tool.CodeLoopDetected)
		},
	},
}

// unaffordable: the prompt has used up its budget.
var unaffordable = []Reason{
	{
		Name: "no calls are left", Code: tool.CodeBudgetExceeded, Says: "at most 1 tool call", Words: []string{"budget.exceeded", "CallsCeiling"},
		arrange: func(w *world) {
			w.profile(catalog.Profile{MaxCalls: 1})
			w.must(w.other("first"), "")
		},
	},
	{
		Name: "no tokens are left", Code: tool.CodeBudgetExceeded, Says: "at most 1 tokens", Words: []string{"budget.exceeded", "TokensCeiling"},
		arrange: func(w *world) {
			w.profile(catalog.Profile{MaxTokens: 1})
			w.must(w.other("first"), "")
		},
	},
	{
		Name: "no time is left", Code: tool.CodeBudgetExceeded, Says: "at most 1ms per prompt", Words: []string{"budget.exceeded", "AgeCeiling"},
		arrange: func(w *world) {
			w.profile(catalog.Profile{MaxDuration: time.Millisecond})
			w.untilRefused("", tool.CodeBudgetExceeded)
		},
	},
	{
		Name: "fewer tokens used than before", Code: tool.CodeInvalidArgs, Says: "must not shrink", Words: []string{"budget.shrank", "TokensShrank"},
		arrange: func(w *world) {
			w.profile(catalog.Profile{MaxTokens: 1_000_000})
			w.must(w.other("first", func(r *sidecallv1.ExecuteToolRequest) { r.TokensUsed = 1000 }), "")
			w.req.TokensUsed = 500
		},
	},
}

// repeated: another call has had its effect, or may have.
var repeated = []Reason{
	{
		Name: "the effect was had", Code: tool.CodeDuplicateEffect, Says: "was done before", Words: []string{"explain.DuplicateEffect"},
		arrange: func(w *world) {
			w.now(w.charge(byOrder))
			w.must(w.other("first"), "")
		},
	},
	{
		Name: "the effect may have been had", Code: tool.CodeOutcomeUnknown, Says: "may have been done", Words: []string{"explain.EffectUnknown"},
		arrange: func(w *world) {
			w.now(w.tool("charge", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.TimedOut), byOrder))
			w.must(w.other("first"), tool.CodeOutcomeUnknown)
			w.now(w.charge(byOrder))
		},
	},
	{
		Name: "the effect is being had", Code: tool.CodeInProgress, Says: "is being done", Words: []string{"explain.EffectInProgress"},
		arrange: (*world).beingHad,
	},
}

// guarded: it is admitted, and something else keeps it from being sent.
var guarded = []Reason{
	{
		Name: "the same call again and again", Code: tool.CodeLoopDetected, Says: "the same outcome", Words: []string{"explain.Loop"},
		arrange: func(w *world) {
			w.watched()
			w.untilRefused("", tool.CodeLoopDetected)
		},
	},
	{
		Name: "the prompt is stopped", Code: tool.CodeLoopDetected, Says: "the same outcome", Stops: true, Words: []string{"explain.Loop"},
		arrange: func(w *world) {
			w.watched()
			w.until(func(res *sidecallv1.ExecuteToolResponse) bool { return res.GetStop() })
		},
	},
	{
		Name: "untrusted output has entered", Code: tool.CodePermissionDenied, Says: "untrusted", Words: []string{"explain.Tainted"},
		arrange: func(w *world) {
			w.now(w.charge(func(r *catalog.Route) { r.Tool.Policy.RefuseTainted = true }),
				w.tool("browse", tool.ReadOnly, calltest.Answers("pay at once"), func(r *catalog.Route) { r.Tool.Policy.Untrusted = true }))
			w.Limit(func(l *catalog.Limits) { l.Taints = true })
			w.must(w.other("first", func(r *sidecallv1.ExecuteToolRequest) { r.ToolName = "browse" }), "")
		},
	},
	{
		Name: "the tool is refused since", Code: tool.CodePermissionDenied, Says: "another one now", Words: []string{"call.withheld"},
		arrange: func(w *world) {
			told := new(catalog.Withdrawal)
			told.Withdraw("it is another one now")
			w.now(w.charge(func(r *catalog.Route) { r.Withdrawal = told }))
		},
	},
	{
		Name: "the breaker is open", Code: tool.CodeCircuitOpen, Says: "has been failing", Words: []string{"call.circuitOpen"},
		arrange: func(w *world) {
			open := breaker.New(breaker.Settings{Name: "shop", Failures: 1, Window: time.Hour, OpenFor: time.Hour})
			if failed, err := open.Allow(); err == nil {
				failed(breaker.Failure)
			}
			w.now(w.charge(func(r *catalog.Route) { r.Breaker = open }))
		},
	},
	{
		Name: "the rate is used up", Code: tool.CodeRateLimited, Says: "the rate limit set", Words: []string{"call.attempt"},
		arrange: func(w *world) {
			used := limit.NewRate(1e-6, 1)
			used.Take()
			w.now(w.charge(func(r *catalog.Route) { r.Rate = used }))
		},
	},
	{
		Name: "the claim runs out before the first byte", Code: tool.CodeStoreUnavailable, Says: "ran out before it was sent",
		arrange: func(w *world) {
			w.now(w.tool("charge", tool.NonIdempotent, &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
				return tool.Reply{}, backend.LeaseLost()
			}}))
		},
	},
}

// changed: what is no reason to refuse, and none to make it once more.
var changed = []Reason{
	{
		Name:    "the tool reads only",
		arrange: func(w *world) { w.now(w.tool("charge", tool.ReadOnly, w.pays)) },
	},
	{
		Name:    "the tool may be repeated",
		arrange: func(w *world) { w.now(w.tool("charge", tool.Idempotent, w.pays)) },
	},
	{
		Name:    "the tool has a key",
		arrange: func(w *world) { w.now(w.tool("charge", tool.Keyed, w.pays)) },
	},
	{
		Name: "the tool lives elsewhere",
		arrange: func(w *world) {
			w.now(w.charge(func(r *catalog.Route) { r.Tool.Backend, r.Target = "bank", "pay_order" }))
		},
	},
}
