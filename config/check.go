package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/tool"
)

// Names that belong to Sidecall itself.
const (
	builtinBackend = "sidecall"
	builtinTool    = "read_output"
)

// check looks at what no single key can say: references between parts of the
// file. It sees a Config that may have problems already and makes no second
// problem of a first.
func (c *Config) check(found *collector) {
	if c.Store == (Store{}) {
		c.Store.Embedded = new(Embedded)
		setDefaults(reflect.ValueOf(c.Store.Embedded).Elem())
	}
	k := &checker{Config: c, found: found}
	k.listen()
	k.store()
	k.retryOrder(RetryRules(c.Defaults.Retry), "defaults", "retry")
	for _, name := range slices.Sorted(maps.Keys(c.Backends)) {
		k.backend(name, c.Backends[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		k.tool(name, c.Tools[name])
	}
	k.profiles()
}

// checker is a Config being checked.
type checker struct {
	*Config
	found *collector
}

// bad notes a problem at the value that the path leads to.
func (k *checker) bad(message string, path ...string) {
	k.found.add(k.source.find(path).at(), "%s", message)
}

func (k *checker) warn(message string, path ...string) {
	k.found.warn(k.source.find(path).at(), "%s", message)
}

func (k *checker) listen() {
	seen := map[string]bool{}
	for i, address := range k.Listen {
		if seen[address.Reveal()] && address.Reveal() != "" {
			k.bad("this address is in the list already", "listen", index(i))
		}
		seen[address.Reveal()] = true
	}
}

func (k *checker) store() {
	r := k.Store.Redis
	if r == nil {
		return
	}
	switch {
	case r.Cluster && r.MasterName.Reveal() != "":
		k.bad("cluster and master_name exclude each other: expected cluster for a Redis Cluster, or master_name for Sentinel", "store", "redis", "cluster")
	case r.Cluster && r.DB != 0:
		k.bad("a Redis Cluster has only database 0", "store", "redis", "db")
	}
	if r.TLS == nil {
		return
	}
	k.tls(r.TLS.TLS, "store", "redis", "tls")
	if r.TLS.Enabled == nil && !r.TLS.On() {
		k.warn("an empty tls block leaves the connection unencrypted; write tls: {enabled: true} for TLS with the system's roots", "store", "redis", "tls")
	}
}

// tls checks that the two halves of a client certificate come together.
func (k *checker) tls(t TLS, path ...string) {
	switch cert, key := t.Cert.Reveal() != "", t.Key.Reveal() != ""; {
	case cert && !key:
		k.bad("a client certificate needs its key: add key", append(path, "cert")...)
	case key && !cert:
		k.bad("a client key needs its certificate: add cert", append(path, "key")...)
	}
}

func (k *checker) retryOrder(r RetryRules, path ...string) {
	if r.Base != 0 && r.Max != 0 && r.Base > r.Max {
		k.bad("base is longer than max: expected base <= max", append(path, "base")...)
	}
}

// onlyIf reports keys that are written where they cannot act.
func (k *checker) onlyIf(allowed bool, reason string, at []string, written map[string]bool) {
	for _, key := range slices.Sorted(maps.Keys(written)) {
		if written[key] && !allowed {
			k.bad(key+" "+reason, append(slices.Clone(at), key)...)
		}
	}
}

func (k *checker) backend(name string, b Backend) {
	at := []string{"backends", name}
	if name == builtinBackend {
		k.bad("this name is Sidecall's own: choose another", at...)
	}
	kinds := 0
	for _, there := range []bool{b.HTTP != nil, b.MCP != nil, b.Exec != nil} {
		if there {
			kinds++
		}
	}
	if kinds != 1 {
		return // reported already
	}
	k.onlyIf(b.Discovers(), "acts on discovered tools only, and only an mcp backend discovers tools", at, map[string]bool{
		"prefix": b.Prefix != "", "include": b.Include != nil, "exclude": b.Exclude != nil,
		"effects": b.Effects != nil, "tools": b.Tools != nil,
	})
	if b.HTTP != nil && b.HTTP.TLS != nil {
		k.tls(*b.HTTP.TLS, "backends", name, "http", "tls")
	}
	if b.MCP != nil {
		k.mcp(name, b)
	}
	if !b.Discovers() && !k.used(name) {
		k.warn("no tool uses this backend", at...)
	}
}

func (k *checker) used(backend string) bool {
	for _, t := range k.Tools {
		if t.Backend == backend {
			return true
		}
	}
	return false
}

func (k *checker) mcp(name string, b Backend) {
	m, at := b.MCP, []string{"backends", name, "mcp"}
	stdio, remote := m.Command != nil, m.URL.Reveal() != ""
	k.onlyIf(stdio || !remote, "belongs to a command, and this server is a url", at, map[string]bool{
		"env": m.Env.Pass != nil || m.Env.Set != nil, "dir": m.Dir.Reveal() != "",
	})
	k.onlyIf(remote || !stdio, "belongs to a url, and this server is a command", at, map[string]bool{
		"headers": m.Headers != nil, "allow_private": m.AllowPrivate,
	})
	for _, toolName := range slices.Sorted(maps.Keys(b.Effects)) {
		at := []string{"backends", name, "effects", toolName}
		if b.Effects[toolName] == tool.Keyed {
			k.bad(noKey, at...)
		}
		if b.Tools[toolName].Effect != nil {
			k.bad("the effect of this tool is also in tools."+toolName+".effect: expected it in one place", at...)
		}
	}
	for _, toolName := range slices.Sorted(maps.Keys(b.Tools)) {
		at := []string{"backends", name, "tools", toolName}
		o := b.Tools[toolName]
		if o.Effect != nil && *o.Effect == tool.Keyed {
			k.bad(noKey, append(at, "effect")...)
		}
		k.rules(fitName(b.Prefix+toolName), o.CallRules, at)
	}
}

// noKey: MCP has no place for an idempotency key that servers agree on. An
// http tool sends it in a header, an exec tool finds it in its environment.
const noKey = "an mcp tool cannot be keyed, as no idempotency key reaches it: expected read_only, idempotent or non_idempotent"

func (k *checker) tool(name string, t Tool) {
	at := []string{"tools", name}
	if name == builtinTool {
		k.bad("this name is that of a built-in tool: choose another", at...)
	}
	k.rules(name, t.CallRules, at)
	k.sensitiveArgs(t, at)
	b, ok := k.Backends[t.Backend]
	switch {
	case t.Backend == "":
		return // reported already
	case !ok:
		names := slices.Collect(maps.Keys(k.Backends))
		k.bad("there is no backend "+quote(t.Backend)+suggestion(t.Backend, names), append(at, "backend")...)
		return
	}
	k.kind(t, b.Kind(), at)
	k.keyed(t, b.Kind(), at)
}

// kind checks that the tool's block is that of its backend.
func (k *checker) kind(t Tool, kind string, at []string) {
	blocks := map[string]bool{"http": t.HTTP != nil, "exec": t.Exec != nil, "mcp": t.MCP != nil}
	for _, block := range slices.Sorted(maps.Keys(blocks)) {
		if blocks[block] && block != kind {
			optional := ""
			if kind == "mcp" {
				optional = " or none"
			}
			k.bad("backend "+quote(t.Backend)+" is of kind "+kind+": expected a block "+kind+optional+" here, found "+block, append(at, block)...)
			return
		}
	}
	if !blocks[kind] && kind != "mcp" {
		k.bad("backend "+quote(t.Backend)+" is of kind "+kind+": expected a block "+kind+" that says how to call the tool", at...)
	}
}

// keyed checks that the idempotency key has a way to the upstream.
func (k *checker) keyed(t Tool, kind string, at []string) {
	isKeyed := t.Effect != nil && *t.Effect == tool.Keyed
	switch {
	case isKeyed && kind == "mcp":
		k.bad(noKey, append(at, "effect")...)
	case isKeyed && t.HTTP != nil && t.HTTP.IdempotencyHeader == "":
		k.bad("a keyed tool needs http.idempotency_header: add it with the name of the header in which the upstream takes the key, often Idempotency-Key", append(at, "effect")...)
	case !isKeyed && t.HTTP != nil && t.HTTP.IdempotencyHeader != "" && t.effect() == tool.NonIdempotent:
		k.warn("the key is sent, but the tool counts as non_idempotent and is not repeated; write effect: keyed when the upstream honours the key", append(at, "http", "idempotency_header")...)
	}
}

// rules checks what declared and discovered tools have in common.
func (k *checker) rules(name string, r CallRules, at []string) {
	k.retryOrder(r.Retry, append(slices.Clone(at), "retry")...)
	if r.AttemptTimeout > r.Deadline && r.Deadline != 0 {
		k.warn("attempt_timeout is longer than the deadline of the whole call, which ends the attempt", append(at, "attempt_timeout")...)
	}
	if r.VerifyWith != "" {
		k.verifier(name, r.VerifyWith, append(at, "verify_with"))
	}
	for i, rule := range r.Errors {
		for j, other := range rule.AllowedAlternatives {
			k.known(other, append(at, "errors", index(i), "allowed_alternatives", index(j)))
		}
	}
}

func (k *checker) verifier(name, verifier string, at []string) {
	t, declared := k.Tools[verifier]
	switch {
	case verifier == name:
		k.bad("a tool cannot verify itself: expected the name of a read-only tool", at...)
	case declared && t.effect() != tool.ReadOnly:
		k.warn("the tool "+quote(verifier)+" is "+t.effect().String()+"; to verify is safe with a read_only tool only", at...)
	case !declared:
		k.known(verifier, at)
	}
}

// known warns of a name that no tool of the file has.
func (k *checker) known(name string, at []string) {
	if _, ok := k.Tools[name]; ok || name == builtinTool {
		return
	}
	if k.discovers() {
		k.warn("no tool of this file is called "+quote(name)+"; it has to be a discovered one", at...)
		return
	}
	k.warn("there is no tool "+quote(name)+didYouMean(name, slices.Collect(maps.Keys(k.Tools))), at...)
}

func (k *checker) discovers() bool {
	for _, b := range k.Backends {
		if b.Discovers() {
			return true
		}
	}
	return false
}

// sensitiveArgs warns of names that the input schema does not mention: a slip
// there would show what should be hidden.
func (k *checker) sensitiveArgs(t Tool, at []string) {
	for i, arg := range t.SensitiveArgs {
		if t.InputSchema != nil && !strings.Contains(string(t.InputSchema), string(appendString(nil, arg))+":") {
			k.warn("the input schema has no property "+quote(arg), append(at, "sensitive_args", index(i))...)
		}
	}
}

func (k *checker) profiles() {
	if _, ok := k.Profile(k.DefaultProfile); !ok {
		k.bad("there is no profile "+quote(k.DefaultProfile)+suggestion(k.DefaultProfile, k.ProfileNames()), "default_profile")
	}
	for _, name := range slices.Sorted(maps.Keys(k.Profiles)) {
		for i, glob := range k.Profiles[name].Tools {
			if !k.matches(glob) {
				k.globWarning(glob, []string{"profiles", name, "tools", index(i)})
			}
		}
	}
}

func (k *checker) globWarning(glob string, at []string) {
	message := "no tool matches " + quote(glob)
	if k.discovers() {
		message = "no tool of this file matches " + quote(glob) + "; it has to be a discovered one"
	}
	k.warn(message, at...)
}

// matches reports whether a glob of a profile names some tool of the file; *
// always does.
func (k *checker) matches(glob string) bool {
	if glob == "*" || matchGlob(glob, builtinTool) {
		return true
	}
	for name := range k.Tools {
		if matchGlob(glob, name) {
			return true
		}
	}
	return false
}
