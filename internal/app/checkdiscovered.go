package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// answer is what a backend first says of its tools.
type answer struct {
	tools []tool.Discovered
	err   error
}

// ask asks every backend that finds its tools itself which they are, until ctx
// ends, and holds what the file says of them against that. Of one that cannot be
// asked it tells what was heard of it. It reports whether the tools of all are known.
func ask(ctx context.Context, g *generation, heard stderrLines, found *problems) (all bool) {
	g.tools.Set(catalog.ConfigSource, g.declared)
	g.discovery.expect(g.hosts)
	answers := askAll(ctx, g.hosts)
	all = len(g.workers()) == 0
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		if err := answers[name].err; err != nil {
			all = false
			why := err.Error()
			if wrote := heard.from(name); wrote != "" {
				why += "; it wrote: " + wrote
			}
			found.add(config.RuleDiscovery, "it cannot be asked for its tools: "+g.hosts[name].ownWords(why), "backends", name)
			continue
		}
		hear(g, g.hosts[name], answers[name].tools, found)
	}
	for _, problem := range g.tools.Snapshot().Unverifiable() {
		found.add(config.RuleVerify, problem)
	}
	return all
}

// askAll starts the discovery of every backend and ends it at its first answer.
func askAll(ctx context.Context, hosts map[string]*host) map[string]answer {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	waiting := make(map[string]chan answer)
	for name, h := range hosts {
		discoverer, ok := h.Backend.(backend.Discoverer)
		if !ok || h.config.Worker != nil { // who comes by itself cannot be asked
			continue
		}
		first := make(chan answer, 1)
		waiting[name] = first
		running.Go(func() {
			discoverer.Run(ctx, func(tools []tool.Discovered, err error) {
				select {
				case first <- answer{tools, err}:
				default: // only the first counts
				}
			})
		})
	}
	answers := make(map[string]answer, len(waiting))
	for name, first := range waiting {
		select {
		case answers[name] = <-first:
			continue
		case <-ctx.Done():
		}
		select {
		case answers[name] = <-first: // it was in time
		default:
			answers[name] = answer{err: errors.New("it did not answer in time: --timeout gives it more")}
		}
	}
	return answers
}

// hear holds what the file says of a backend's tools against those that it has.
func hear(g *generation, h *host, tools []tool.Discovered, found *problems) {
	at := []string{"backends", h.name}
	names := make([]string, len(tools))
	var unsaid []string
	for i, d := range tools {
		names[i] = d.Name
		if as, offered := g.config.Discovered(h.name, d.Name, claimedEffect(d)); offered && !h.config.SaysEffect(d.Name, d.Claimed) {
			unsaid = append(unsaid, as.Name)
		}
	}
	if len(unsaid) > 0 {
		slices.Sort(unsaid)
		them, count := "them", "they count"
		if len(unsaid) == 1 {
			them, count = "it", "it counts"
		}
		found.add(config.RuleEffect, fmt.Sprintf("of %s nobody says what repeating %s does, so %s as non_idempotent: %s; write effects",
			tool.Count(len(unsaid), "tool"), them, count, strings.Join(unsaid, ", ")), at...)
	}
	for _, entry := range h.config.Unmatched(names) {
		found.add(config.RuleUnmatched, fmt.Sprintf("the backend has no tool like %q", entry.Name), append(slices.Clone(at), entry.Path...)...)
	}
	routes, err := discoveredRoutes(h, tools, g.config, g.discovery.pins.Unwritten())
	for _, route := range routes {
		if route.Refused != "" {
			found.add(config.RuleDiscovery, "the tool "+route.Tool.Name+" is refused: "+route.Refused, append(slices.Clone(at), "pin")...)
		}
		if why := asWaiting(route.Tool.Name, route.Tool.Effect); why != "" && !route.Tool.Policy.Polling {
			found.add(config.RulePolling, route.Tool.Name+": "+why, append(slices.Clone(at), "tools")...)
		}
		if why := withoutKey(route.Tool.Effect, schema.ReadDraft(route.Tool.InputSchema)); why != "" && len(route.Tool.Policy.EffectKey.Args) == 0 {
			found.add(config.RuleEffectKey, route.Tool.Name+": "+why, append(slices.Clone(at), "tools")...)
		}
	}
	for _, target := range targetsAstray(h, routes) {
		found.add(config.RuleArgumentUndeclared, target.why, target.at...)
	}
	for _, unusable := range each(err) {
		found.add(config.RuleDiscovery, "it has a tool that cannot be used: "+h.secrets.Replace(unusable.Error()), at...)
	}
	for _, collision := range g.tools.Set(h.name, routes) {
		if collision.Dropped == h.name {
			found.add(config.RuleDiscovery, collision.String(), at...)
		}
	}
}
