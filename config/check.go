package config

import (
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sidecall/sidecall/tool"
)

// check looks at what no single key can say: references between parts of the
// file. It sees a Config that may have problems already and makes no second
// problem of a first. discovered are the tools that backends were found to have;
// nil when nobody has asked.
func (c *Config) check(found *collector, discovered []string) {
	if c.Store == (Store{}) {
		c.Store.Embedded = new(Embedded)
		(&decoder{dir: c.source.dir}).setDefaults(reflect.ValueOf(c.Store.Embedded).Elem())
	}
	k := newChecker(c, found, discovered)
	k.listen()
	k.operator()
	k.identity()
	k.store()
	k.files()
	k.retention()
	k.retryOrder(RetryRules(c.Defaults.Retry), "defaults", "retry")
	k.generalRules()
	for _, name := range slices.Sorted(maps.Keys(c.Backends)) {
		k.backend(name, c.Backends[name])
	}
	for _, name := range k.toolNames {
		k.tool(name, c.Tools[name])
	}
	k.profiles()
}

// operator keeps agents and operators apart.
func (k *checker) operator() {
	for _, address := range k.Listen {
		if address.Reveal() != "" && address.Reveal() == k.Operator.Reveal() {
			k.bad("this is an address of agents, in listen: expected another socket, best in a directory that no agent may enter", "operator")
		}
	}
}

// identity takes no key without a value for a decision: it would relax what the
// whole file says nothing else of.
func (k *checker) identity() {
	require, there := k.source.find([]string{"identity", "require"})
	if there && isNull(require.node) {
		k.bad("expected a list of ids, or [] to require none", "identity", "require")
	}
}

func (k *checker) store() {
	if e := k.Store.Embedded; e != nil && e.MaxBytes != 0 && 3*k.Limits.KeepOutputBytes > e.MaxBytes {
		k.warn("outputs may have a third of "+e.MaxBytes.String()+", and one that is as large as limits.keep_output_bytes, "+
			k.Limits.KeepOutputBytes.String()+", is never kept: expected at least "+(3*k.Limits.KeepOutputBytes).String(), "store", "embedded", "max_bytes")
	}
	r := k.Store.Redis
	if r == nil {
		return
	}
	switch {
	case r.Cluster && r.MasterName.Reveal() != "":
		k.bad("cluster and master_name exclude each other: expected cluster for a Redis Cluster, or master_name for Sentinel", "store", "redis", "cluster")
	case r.Cluster && r.DB != 0:
		k.bad("a Redis Cluster has only database 0", "store", "redis", "db")
	case r.MasterName.Reveal() == "" && r.SentinelUsername.Reveal() != "":
		k.bad("sentinel_username is for Sentinels: expected master_name with it", "store", "redis", "sentinel_username")
	case r.MasterName.Reveal() == "" && r.SentinelPassword.Reveal() != "":
		k.bad("sentinel_password is for Sentinels: expected master_name with it", "store", "redis", "sentinel_password")
	}
	k.redisAddresses(r)
	if r.TLS == nil {
		return
	}
	k.tls(r.TLS.TLS, "store", "redis", "tls")
	if r.TLS.Enabled == nil && !r.TLS.On() {
		k.warn("an empty tls block leaves the connection unencrypted; write tls: {enabled: true} for TLS with the system's roots", "store", "redis", "tls")
	}
}

// redisAddresses checks what the store would refuse at the start.
func (k *checker) redisAddresses(r *Redis) {
	if len(r.Addrs) > 1 && !r.Cluster && !k.written("store", "redis", "master_name") {
		k.bad("several addresses are Sentinels or nodes of a Cluster: expected master_name or cluster with them, or one address", "store", "redis", "addrs")
	}
	if strings.ContainsAny(r.KeyPrefix.Reveal(), "{}") {
		k.bad("braces decide the slot of a key: expected a prefix without { and }", "store", "redis", "key_prefix")
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

func (k *checker) backend(name string, b Backend) {
	at := []string{"backends", name}
	if name == builtinBackend {
		k.bad("this name is Sidecall's own: choose another", at...)
	}
	if !b.HasOneKind() {
		return // reported already
	}
	k.onlyIf(b.Discovers(), "acts on discovered tools only, and only an mcp or a worker backend discovers tools", at, map[string]bool{
		"prefix": b.Prefix != "", "include": b.Include != nil, "exclude": b.Exclude != nil,
		"effects": b.Effects != nil, "tools": b.Tools != nil, "pin": b.Pin, "optional": b.Optional,
	})
	if b.HTTP != nil && b.HTTP.TLS != nil {
		k.tls(*b.HTTP.TLS, "backends", name, "http", "tls")
	}
	if b.MCP != nil {
		k.mcp(name, b)
	}
	if b.Discovers() {
		k.discoveredTools(name, b)
	}
	if !b.Discovers() && !k.used[name] {
		k.find(RuleUnused, "no tool uses this backend", at...)
	}
}

func (k *checker) mcp(name string, b Backend) {
	m, at := b.MCP, []string{"backends", name, "mcp"}
	stdio, remote := m.Command != nil, m.URL.Reveal() != ""
	k.onlyIf(stdio || !remote, "belongs to a command, and this server is a url", at, map[string]bool{
		"env": m.Env.Pass != nil || m.Env.Set != nil, "dir": m.Dir.Reveal() != "",
		"run_as": m.RunAs.Reveal() != "",
	})
	k.onlyIf(remote || !stdio, "belongs to a url, and this server is a command", at, map[string]bool{
		"headers": m.Headers != nil, "allow_private": m.AllowPrivate,
	})
}

// discoveredTools checks what the file says of tools that a backend is yet to find.
func (k *checker) discoveredTools(name string, b Backend) {
	for _, toolName := range slices.Sorted(maps.Keys(b.Effects)) {
		at := []string{"backends", name, "effects", toolName}
		if b.Effects[toolName] == tool.Keyed && b.MCP != nil {
			k.bad(noKey, at...)
		}
		if b.Tools[toolName].Effect != nil {
			k.bad("the effect of this tool is also in tools."+toolName+".effect: expected it in one place", at...)
		}
	}
	for _, toolName := range slices.Sorted(maps.Keys(b.Tools)) {
		at := []string{"backends", name, "tools", toolName}
		o := b.Tools[toolName]
		if o.Effect != nil && *o.Effect == tool.Keyed && b.MCP != nil {
			k.bad(noKey, append(at, "effect")...)
		}
		if o.EffectKey != nil && b.saysReadOnly(toolName) {
			k.bad(noEffect, append(slices.Clone(at), "effect_key")...)
		}
		k.rules(fitName(b.Prefix+toolName), o.CallRules, at)
	}
}

func (k *checker) profiles() {
	if _, ok := k.Profile(k.DefaultProfile); !ok {
		k.bad("there is no profile "+quote(k.DefaultProfile)+suggestion(k.DefaultProfile, k.knownProfiles()), "default_profile")
	}
	narrow := false
	for _, p := range k.Profiles {
		narrow = narrow || !slices.Contains(p.Tools, "*")
	}
	if _, declared := k.Profiles[k.DefaultProfile]; !declared && narrow && builtinProfiles[k.DefaultProfile].Tools != nil {
		k.warn("a request that names no profile gets "+quote(k.DefaultProfile)+", which is built in and has every tool: set default_profile to one of these, or declare it", "profiles")
	}
	for _, name := range slices.Sorted(maps.Keys(k.Profiles)) {
		if d := k.Profiles[name].MaxDuration; d > 0 && d < time.Millisecond {
			k.bad("stores count in milliseconds: expected 1ms or more, or 0s for no limit", "profiles", name, "max_duration")
		}
		k.loopGuard(k.Profiles[name].LoopGuard, "profiles", name, "loop_guard")
		for i, glob := range k.Profiles[name].Tools {
			if !k.matches(glob) {
				k.globWarning(glob, []string{"profiles", name, "tools", index(i)})
			}
		}
	}
}

func (k *checker) globWarning(glob string, at []string) {
	if k.discovers {
		k.find(RuleUndiscovered, "no tool of this file matches "+quote(glob)+"; it has to be a discovered one", at...)
		return
	}
	k.find(RuleUnknownName, "no tool matches "+quote(glob), at...)
}

// matches reports whether a glob of a profile names some tool of the file; *
// always does.
func (k *checker) matches(glob string) bool {
	if glob == "*" || matchGlob(glob, builtinTool) {
		return true
	}
	return slices.ContainsFunc(slices.Concat(k.toolNames, k.discovered), func(name string) bool { return matchGlob(glob, name) })
}

// files keeps the files apart that the sidecar writes: one would be the end of the
// other.
func (k *checker) files() {
	store, journal, pins := "", "", clean(k.PinsFile())
	if k.Journal.On(k.Store.Kind()) {
		journal = clean(k.JournalPath())
	}
	if k.Store.Embedded != nil {
		store = clean(k.Store.Embedded.Path.Reveal())
	}
	if journal != "" && journal == store {
		k.bad("this is the file of the store: expected another one, best on another disk", "journal", "path")
	}
	if pins != "" && pins == store {
		k.bad("this is the file of the store: expected another one", "pins", "path")
	}
	if pins != "" && pins == journal {
		k.bad("this is the file of the journal: expected another one", "pins", "path")
	}
}

// clean is a path of which there is one spelling in a directory; empty stays so.
func clean(path string) string {
	if path == "" {
		return ""
	}
	return filepath.Clean(path)
}
