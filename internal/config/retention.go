package config

import (
	"maps"
	"slices"
	"time"
)

// retention checks that no record is forgotten while its call runs: what is kept
// must outlast the longest call, the lease that may follow its last renewal, and
// one more in which its owner settles it.
func (k *checker) retention() {
	longest, at := k.longestDeadline()
	least := longest + 2*k.Lease
	if k.Retention == 0 || k.Retention >= least {
		return
	}
	if here := k.in("retention"); here.written() {
		at = here
	}
	at.bad("retention is " + k.Retention.String() + ", and the longest deadline with two leases is " + least.String() +
		": a running call would be forgotten, and its id run again; set retention to at least " + least.String())
}

// MaxDeadline is the longest that a call may take whose tool the file does not know:
// its record must not be forgotten while it runs.
func (c *Config) MaxDeadline() time.Duration { return c.Retention - 2*c.Lease }

// longestDeadline is the longest that a call of any tool may take, and where the
// file says so.
func (k *checker) longestDeadline() (longest time.Duration, at within) {
	longest, at = k.Defaults.Deadline, k.in("defaults", "deadline")
	consider := func(deadline time.Duration, path ...string) {
		if deadline > longest {
			longest, at = deadline, k.in(path...).in("deadline")
		}
	}
	for _, name := range k.names.declared {
		consider(k.Tools[name].Deadline, "tools", name)
	}
	for _, backend := range slices.Sorted(maps.Keys(k.Backends)) {
		tools := k.Backends[backend].Tools
		for _, name := range slices.Sorted(maps.Keys(tools)) {
			consider(tools[name].Deadline, "backends", backend, "tools", name)
		}
	}
	return longest, at
}
