package config

import (
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// check looks at what no single key can say: references between parts of the
// file. It sees a Config that may have problems already and makes no second
// problem of a first. discovered are the tools that backends were found to have;
// nil when nobody has asked.
func (c *Config) check(found *collector, discovered []string) {
	if c.Store == (Store{}) {
		c.Store.Embedded = new(Embedded)
		(&decoder{dir: c.Dir}).setDefaults(reflect.ValueOf(c.Store.Embedded).Elem())
	}
	k := newChecker(c, found, discovered)
	k.listen()
	k.operator()
	k.store()
	k.files()
	k.retention()
	k.generalRules(k.in("defaults", "recovery", "rules"))
	for _, name := range slices.Sorted(maps.Keys(c.Backends)) {
		k.backend(name, c.Backends[name], k.in("backends", name))
	}
	for _, name := range k.names.declared {
		k.tool(name, c.Tools[name], k.in("tools", name))
	}
	k.profiles()
}

// operator keeps agents and operators apart.
func (k *checker) operator() {
	for _, address := range k.Listen {
		if address.Reveal() != "" && address.Reveal() == k.Operator.Reveal() {
			k.in("operator").bad("this is an address of agents, in listen: expected another socket, best in a directory that no agent may enter")
		}
	}
}

func (k *checker) store() {
	if e := k.Store.Embedded; e != nil && e.MaxBytes != 0 && 3*k.Limits.KeepOutputBytes > e.MaxBytes {
		k.in("store", "embedded", "max_bytes").warn("outputs may have a third of " + e.MaxBytes.String() + ", and one that is as large as limits.keep_output_bytes, " +
			k.Limits.KeepOutputBytes.String() + ", is never kept: expected at least " + (3 * k.Limits.KeepOutputBytes).String())
	}
}

func (k *checker) backend(name string, b Backend, w within) {
	if name == builtinBackend {
		w.bad("this name is Sidecall's own: choose another")
	}
	switch {
	case !b.HasOneKind(): // reported already
	case b.Discovers():
		k.discoveredTools(b, w)
	case !k.used[name]:
		w.find(RuleUnused, "no tool uses this backend")
	}
}

// discoveredTools checks what the file says of tools that a backend is yet to find.
func (k *checker) discoveredTools(b Backend, w within) {
	for _, name := range slices.Sorted(maps.Keys(b.Effects)) {
		at := w.in("effects", name)
		if b.Tools[name].Effect != nil {
			at.bad("the effect of this tool is also in tools." + name + ".effect: expected it in one place")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Tools)) {
		at, o := w.in("tools", name), b.Tools[name]
		if o.EffectKey != nil && b.saysReadOnly(name) {
			at.in("effect_key").bad(noEffect)
		}
		if b.saysReadOnly(name) {
			o.askedInVain(at)
		}
		k.rules(fitName(b.Prefix+name), o.CallRules, at)
	}
}

func (k *checker) profiles() {
	if _, ok := k.Profile(k.DefaultProfile); !ok {
		k.in("default_profile").bad("there is no profile " + quote(k.DefaultProfile) + Suggestion(k.DefaultProfile, k.Profiles.known()))
	}
	narrow := false
	for _, p := range k.Profiles {
		narrow = narrow || !slices.Contains(p.Tools, "*")
	}
	if _, declared := k.Profiles[k.DefaultProfile]; !declared && narrow && builtinProfiles[k.DefaultProfile].Tools != nil {
		k.in("profiles").warn("a request that names no profile gets " + quote(k.DefaultProfile) + ", which is built in and has every tool: set default_profile to one of these, or declare it")
	}
	for _, name := range slices.Sorted(maps.Keys(k.Profiles)) {
		if k.Profiles[name].Observes() {
			k.in("profiles", name, "mode").find(RuleObserve, "calls of this profile are only looked at: one that is sent again runs again, and none is refused, cut, or held for a person; sidecall report says what would have been")
		}
		for i, glob := range k.Profiles[name].Tools {
			k.names.glob(glob, k.in("profiles", name, "tools", index(i)))
		}
	}
}

// files keeps the files apart that the sidecar writes: one would be the end of the
// other.
func (k *checker) files() {
	store, journal := "", ""
	if k.Store.Embedded != nil {
		store = k.Store.Embedded.Path.Reveal()
	}
	if k.Journal.On(k.Store.Kind()) {
		journal = k.JournalPath()
	}
	files := []struct{ what, path, key, best string }{
		{"store", store, "", ""},
		{"journal", journal, "journal.path", ", best on another disk"},
		{"pins", k.PinsFile(), "pins.path", ""},
		{"observed calls", k.ObservedFile(), "observe.file", ""},
	}
	for i, file := range files {
		for _, other := range files[:i] {
			if file.path != "" && filepath.Clean(file.path) == filepath.Clean(other.path) {
				k.in(strings.Split(file.key, ".")...).bad("this is the file of the " + other.what + ": expected another one" + file.best)
			}
		}
	}
}
