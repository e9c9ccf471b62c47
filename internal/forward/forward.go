// Package forward hands requests of MCP that are no calls of tools on to the MCP servers behind a
// sidecar, and makes one list of theirs.
package forward

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/redact"
)

const (
	// maxPages bounds the pages of one list of one server, maxItems the items of all.
	maxPages = 1000
	maxItems = 10_000
	// listTime bounds the list of one server: who hangs hides nothing of the others.
	listTime = 10 * time.Second
	// The errors of JSON-RPC: no such method, parameters that cannot be (in 2026-07-28 also no such
	// resource), and no such resource in revisions before it.
	noMethod, badParams, noResource = -32601, -32602, -32002
)

// server is an MCP server of which some tool may be called.
type server struct {
	backend.Relay

	name string
	// prefix is before the names of its tools, and of its prompts.
	prefix string
	// secrets are those that it was entrusted with, which it must not tell.
	secrets *redact.Set
}

// Servers are the MCP servers behind routes, by the names of their backends.
type Servers []server

// Of returns the servers behind routes.
func Of(routes []*catalog.Route) Servers {
	var all Servers
	for _, route := range routes {
		relay, ok := route.Backend.(backend.Relay)
		if !ok || slices.ContainsFunc(all, func(s server) bool { return s.name == route.Tool.Backend }) {
			continue
		}
		all = append(all, server{relay, route.Tool.Backend, strings.TrimSuffix(route.Tool.Name, route.Target), route.Secrets})
	}
	slices.SortFunc(all, func(a, b server) int { return cmp.Compare(a.name, b.name) })
	return all
}

// Same reports that they are the same servers, under the same prefixes.
func (s Servers) Same(others Servers) bool {
	return slices.EqualFunc(s, others, func(a, b server) bool { return a.Relay == b.Relay && a.prefix == b.prefix })
}

// Listen signals that a server has said something to everybody, until stop is called; next is what
// they have said since, as in backend.Relay.
func (s Servers) Listen(there chan<- struct{}) (next func() (backend.Note, bool), stop func()) {
	nexts, stops := make([]func() (backend.Note, bool), len(s)), make([]func(), len(s))
	for i, server := range s {
		nexts[i], stops[i] = server.Relay.Listen(there)
	}
	next = func() (backend.Note, bool) {
		for i, server := range s {
			if note, ok := nexts[i](); ok {
				return backend.Note{Method: note.Method, Params: string(server.masked([]byte(note.Params)))}, true
			}
		}
		return backend.Note{}, false
	}
	return next, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// Subscribe has all servers tell of a resource, until end is called: many take any subscription,
// so that a yes does not say whose the resource is. It is an error when none takes it.
func (s Servers) Subscribe(ctx context.Context, uri string) (end func(context.Context) error, err error) {
	ends := make([]func(context.Context) error, len(s))
	errs := s.each(ctx, func(ctx context.Context, i int) (err error) {
		ends[i], err = s[i].Relay.Subscribe(ctx, uri)
		return s[i].hidden(err)
	})
	if !slices.Contains(errs, nil) {
		return nil, most(errs)
	}
	return func(ctx context.Context) error {
		return errors.Join(s.each(ctx, func(ctx context.Context, i int) error {
			if ends[i] == nil {
				return nil
			}
			return s[i].hidden(ends[i](ctx))
		})...)
	}, nil
}

// each asks all servers at the same time, each for no longer than a list may take.
func (s Servers) each(ctx context.Context, ask func(ctx context.Context, i int) error) []error {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	errs := make([]error, len(s))
	var all sync.WaitGroup
	for i := range s {
		all.Go(func() { errs[i] = ask(ctx, i) })
	}
	all.Wait()
	return errs
}

// lists are the methods that list something: under which key, and which member is the name that
// is the same for no two of them.
var lists = map[string]struct{ key, name string }{
	"resources/list":           {"resources", "uri"},
	"resources/templates/list": {"resourceTemplates", "uriTemplate"},
	"prompts/list":             {"prompts", "name"},
}

// Request makes a request. An error that is for the client is a *backend.Refusal.
func (s Servers) Request(ctx context.Context, method string, params json.RawMessage, memory backend.Memory) (json.RawMessage, error) {
	if list, ok := lists[method]; ok {
		return s.list(ctx, method, list.key, list.name, memory)
	}
	return s.first(ctx, method, params, memory)
}

// list makes one list, without pages. A server that does not answer, or has nothing of the kind,
// adds nothing to it.
func (s Servers) list(ctx context.Context, method, key, name string, memory backend.Memory) (json.RawMessage, error) {
	found := make([][]map[string]json.RawMessage, len(s))
	errs := s.each(ctx, func(ctx context.Context, i int) error {
		return s[i].pages(ctx, method, key, memory, func(item map[string]json.RawMessage) bool {
			found[i] = append(found[i], item)
			return len(found[i]) < maxItems
		})
	})
	items, seen := []map[string]json.RawMessage{}, map[string]bool{}
	for i, server := range s {
		for _, item := range found[i] {
			var named string
			if json.Unmarshal(item[name], &named) != nil {
				continue
			}
			if key == "prompts" {
				named = server.prefix + named
				item[name], _ = json.Marshal(named) // a text
			}
			if !seen[named] && len(items) < maxItems {
				seen[named] = true
				items = append(items, item)
			}
		}
	}
	for _, err := range errs {
		if refusal, ok := errors.AsType[*backend.Refusal](err); len(items) == 0 && err != nil && (!ok || refusal.Code != noMethod) {
			return nil, err
		}
	}
	return json.Marshal(map[string]any{key: items})
}

// pages yields the items of a list of a server, until it is told to stop.
func (s server) pages(ctx context.Context, method, key string, memory backend.Memory, yield func(map[string]json.RawMessage) bool) error {
	params := json.RawMessage(`{}`)
	for range maxPages {
		raw, err := s.ask(ctx, method, params, memory)
		if err != nil {
			return err
		}
		var page map[string]json.RawMessage
		var items []map[string]json.RawMessage
		if err := cmp.Or(json.Unmarshal(raw, &page), json.Unmarshal(page[key], &items)); err != nil {
			return err
		}
		for _, item := range items {
			if !yield(item) {
				return nil
			}
		}
		next := text(page["nextCursor"])
		if next == "" {
			return nil
		}
		if params, err = json.Marshal(map[string]string{"cursor": next}); err != nil {
			return err
		}
	}
	return nil
}

// text is a value that is a text; else empty.
func text(value json.RawMessage) (t string) {
	if json.Unmarshal(value, &t) != nil {
		return ""
	}
	return t
}

// first is the answer of the first server that has one. Each has its share of the time that is left.
func (s Servers) first(ctx context.Context, method string, params json.RawMessage, memory backend.Memory) (json.RawMessage, error) {
	var refused []error
	for i, server := range s {
		own, theirs := server.addressed(method, params)
		if !theirs {
			continue
		}
		share, cancel := ctx, context.CancelFunc(func() {})
		if end, ok := ctx.Deadline(); ok {
			share, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(len(s)-i))
		}
		result, err := server.ask(share, method, own, memory)
		cancel()
		if err == nil {
			return result, nil
		}
		refused = append(refused, err)
	}
	if len(refused) == 0 && len(s) > 0 {
		return nil, &backend.Refusal{Code: badParams, Message: "name: no server behind this one has a prompt of that name"}
	}
	return nil, most(refused)
}

// most is the error of several that says most.
func most(errs []error) error {
	none := error(&backend.Refusal{Code: noMethod, Message: "no server behind this one has that"})
	for _, err := range errs {
		if tells(err) > tells(none) {
			none = err
		}
	}
	return none
}

// tells is how much an error says of what was asked for: a server that does not know the method says
// less than one that does not know the thing, and that less than the one that has it.
func tells(err error) int {
	refusal, ok := errors.AsType[*backend.Refusal](err)
	switch {
	case !ok:
		return 2 // it may have the thing, and does not answer
	case refusal.Code == noMethod:
		return 0
	case refusal.Code == badParams, refusal.Code == noResource:
		return 1
	default:
		return 3
	}
}

// ask makes a request of one server. Its secrets are not in the answer.
func (s server) ask(ctx context.Context, method string, params json.RawMessage, memory backend.Memory) (json.RawMessage, error) {
	result, err := s.Forward(ctx, method, params, memory)
	if err != nil {
		return nil, s.hidden(err)
	}
	return s.masked(result), nil
}

// masked is JSON without the server's secrets. Of one that is more than a value the rest is no JSON any more.
func (s server) masked(raw json.RawMessage) json.RawMessage {
	return s.secrets.Bytes(output.WithoutSecrets(raw, s.secrets))
}

// hidden is an error without them.
func (s server) hidden(err error) error {
	if refusal, ok := errors.AsType[*backend.Refusal](err); ok {
		return &backend.Refusal{Code: refusal.Code, Message: s.secrets.Replace(refusal.Message), Data: s.masked(refusal.Data)}
	}
	if err != nil {
		return errors.New(s.secrets.Replace(err.Error()))
	}
	return nil
}

// addressed returns the parameters as the server knows them; false when they name a prompt that
// cannot be its own.
func (s server) addressed(method string, params json.RawMessage) (json.RawMessage, bool) {
	if s.prefix == "" {
		return params, true
	}
	var all, within map[string]json.RawMessage
	if json.Unmarshal(params, &all) != nil {
		return params, true // for it to refuse
	}
	within = all
	if method == "completion/complete" {
		if json.Unmarshal(all["ref"], &within) != nil {
			return params, true
		}
	} else if method != "prompts/get" {
		return params, true
	}
	var name string
	if json.Unmarshal(within["name"], &name) != nil || name == "" { // that of a resource
		return params, true
	}
	own, theirs := strings.CutPrefix(name, s.prefix)
	if !theirs {
		return nil, false
	}
	within["name"], _ = json.Marshal(own) // a text
	if method == "completion/complete" {
		all["ref"], _ = json.Marshal(within) // of what was JSON
	}
	encoded, err := json.Marshal(all)
	return encoded, err == nil
}
