package app

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/rules/history/failures"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// counsel is what failed calls are told by, and where in the file its rules stand.
type counsel struct {
	advisor *failures.Advisor
	// lists is where the rules stand that begin like this in the names of fields:
	// rules, tools.get_order.rules.
	lists map[string][]string
	// places are where each suggestion stands, by its field: the file itself is let go
	// of after the start.
	places map[string]config.Problem
}

// newCounsel compiles what the file says of failed calls. What is wrong is among the
// problems, and nothing is told then.
func newCounsel(cfg *config.Config, found *problems) *counsel {
	c := &counsel{lists: map[string][]string{"rules": {"defaults", "recovery", "rules"}}, places: map[string]config.Problem{}}
	opts := failures.Options{MaxChars: cfg.Defaults.Recovery.MaxChars, OfTools: make(map[string][]failures.Rule)}
	for _, rule := range cfg.Defaults.Recovery.Rules {
		opts.Rules = append(opts.Rules, recoveryRule(rule.RecoveryRule, rule.Tools))
	}
	ofTool := func(name string, rules []config.RecoveryRule, at ...string) {
		for _, rule := range rules {
			opts.OfTools[name] = append(opts.OfTools[name], recoveryRule(rule, nil))
			c.lists["tools."+name+".rules"] = append(at, "recovery", "rules")
		}
	}
	for name, t := range cfg.Tools {
		ofTool(name, t.Recovery.Rules, "tools", name)
	}
	for backend, b := range cfg.Backends {
		for name := range b.Tools {
			if as, ok := cfg.Discovered(backend, name, nil); ok && opts.OfTools[as.Name] == nil {
				ofTool(as.Name, as.Rules.Recovery.Rules, "backends", backend, "tools", name)
			}
		}
	}
	var err error
	if c.advisor, err = failures.New(opts); err != nil {
		for _, wrong := range each(err) {
			c.report(wrong, found)
		}
		return c
	}
	for _, named := range c.advisor.Gone(func(string) bool { return false }) {
		c.places[named.Field] = cfg.Where(c.place(named.Field)...)
	}
	return c
}

func recoveryRule(rule config.RecoveryRule, tools []string) failures.Rule {
	made := failures.Rule{Pattern: rule.Pattern, Tools: tools, Suggest: rule.Suggest, Tried: failures.Tried(rule.Tried), Only: rule.Only}
	for _, code := range rule.Codes {
		made.Codes = append(made.Codes, tool.Code(code))
	}
	return made
}

// report records what is wrong with a rule, at its place.
func (c *counsel) report(wrong error, found *problems) {
	field, ok := errors.AsType[*failures.FieldError](wrong)
	switch {
	case !ok:
		found.add(config.RuleValue, wrong.Error(), "defaults", "recovery")
	case strings.HasSuffix(field.Field, ".pattern"):
		found.add(config.RuleExpression, field.Reason, c.place(field.Field)...)
	default:
		found.add(config.RuleValue, field.Reason, c.place(field.Field)...)
	}
}

// place is where in the file a field stands: of tools.NAME.rules[1].suggest[0] the
// name may be that of a discovered tool, which stands elsewhere.
func (c *counsel) place(field string) []string {
	for list, at := range c.lists {
		if rest, ok := strings.CutPrefix(field, list); ok && (rest == "" || rest[0] == '[') {
			return slices.Concat(at, steps.FindAllString(rest, -1))
		}
	}
	return []string{"defaults", "recovery", field}
}

// advice is what the catalog has of it.
func (c *counsel) advice(cfg *config.Config) catalog.Advice {
	return catalog.Advice{Advisor: c.advisor, UnknownTools: !cfg.Recovery(config.CallRules{}).Off}
}

// gone says, in a sentence each, which suggestions name a tool that is not there: they
// are never made.
func (c *counsel) gone(snapshot *catalog.Snapshot) []string {
	var told []string
	for _, gone := range c.advisor.Gone(func(name string) bool { _, ok := snapshot.Lookup(name); return ok }) {
		at := c.places[gone.Field]
		at.Message = "there is no tool " + tool.Quote(gone.Tool) + ": this is never suggested"
		told = append(told, at.Error())
	}
	return told
}

// compileRecovery compiles how failed calls of a tool are told what was tried before.
func compileRecovery(route *catalog.Route, rules config.CallRules, cfg *config.Config, wrong complaint) {
	how := cfg.Recovery(rules)
	targeting, err := failures.NewTargeting(how.Target, route.Tool.InputSchema, route.Schema.Secret)
	switch {
	case err != nil:
		wrong([]string{"recovery"}, err)
	case !how.Off:
		route.Recovery = &catalog.Recovery{Targeting: targeting, MaxChars: how.MaxChars}
	}
	route.Search = targeting
	if len(rules.SearchKeys) == 0 {
		return
	}
	// Those that the config names are only ever kept as hashes, so that they may be sensitive.
	route.Search, err = failures.NewTargeting(rules.SearchKeys, nil, nil)
	if field, ok := errors.AsType[*failures.FieldError](err); ok {
		wrong(nil, &failures.FieldError{Field: "search_keys" + strings.TrimPrefix(field.Field, "target"), Reason: strings.Replace(field.Reason, "be a target", "be searched by", 1)})
	}
}

// recovery holds the arguments that make the target, and those that calls are found by,
// against the input schema.
func (i *inspection) recovery(r config.CallRules) {
	i.arguments(r.Recovery.Target, "recovery", "target")
	i.arguments(r.SearchKeys, "search_keys")
}

func (i *inspection) arguments(paths []string, key ...string) {
	for n, path := range paths {
		i.has(i.own, "the input schema", failures.Split(path)[0], "no call is ever about it", unknownToModels, i.under(append(slices.Clone(key), strconv.Itoa(n))...))
	}
}

// astray is a target of a discovered tool that its schema does not have.
type astray struct {
	at  []string
	why string
}

// targetsAstray finds them among what the file says of tools that a backend has found.
func targetsAstray(h *host, routes []*catalog.Route) []astray {
	var found []astray
	for _, route := range routes {
		targets := h.config.Tools[route.Target].Recovery.Target
		if len(targets) == 0 {
			continue
		}
		draft := schema.ReadDraft(route.Tool.InputSchema)
		for n, path := range targets {
			if name := failures.Split(path)[0]; !draft.Mentions(name) {
				found = append(found, astray{
					[]string{"backends", h.name, "tools", route.Target, "recovery", "target", strconv.Itoa(n)},
					unmentioned(draft, "the input schema of "+route.Tool.Name, name) + unknownToModels,
				})
			}
		}
	}
	return found
}
