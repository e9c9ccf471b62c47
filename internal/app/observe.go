package app

import (
	"errors"

	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/telemetry"
)

// observeBreakers registers the metric of the breakers' states.
func observeBreakers(g *inForce, t *telemetry.Telemetry) error {
	return t.Gauge("sidecall.breaker.state", "State of each breaker, of a backend's connection by the name of the backend and of a tool as BACKEND/TOOL: 0 closed, 1 half-open, 2 open.",
		func(report func(int64, string, string)) {
			g.Load().breakers(func(name string, state breaker.State) {
				report(int64(state), "sidecall.breaker", name)
			})
		})
}

// observeReloads registers the metrics of the configs that came after the first.
func observeReloads(f *follower, t *telemetry.Telemetry) error {
	states := func(report func(int64, string, string)) {
		last := f.outcome.following()
		const key = "sidecall.config.state"
		report(1, key, "in_force")
		report(int64(len(f.succession.slots)), key, "retiring")
		report(number(last.Waiting != ""), key, "waiting")
		report(number(last.Refused != ""), key, "refused")
	}
	return errors.Join(
		t.Gauge("sidecall.config.generations", "Configs by their state: the one in force, those before it that calls still have, and whether the last one waits for its backends or was refused.", states),
		t.Counter("sidecall.config.reloads", "Configs that have taken over from one before.",
			func() int64 { return f.outcome.following().taken }),
		t.Counter("sidecall.config.refusals", "Configs that were refused while the one before stayed in force.",
			func() int64 { return f.outcome.following().refusals }))
}

func number(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// observeJournal registers the metrics of the settlements that did not reach
// the store in time. kind is that of the store.
func observeJournal(calls *dedupe.Dedupe, kind string, t *telemetry.Telemetry) error {
	late := calls.Late
	waiting := t.Gauge("sidecall.journal.pending", "Results that wait in the journal for the store.",
		func(report func(int64, string, string)) { report(int64(late().Waiting), "sidecall.store", kind) })
	return errors.Join(waiting,
		t.Counter("sidecall.journal.replayed", "Results that the store has taken from the journal.",
			func() int64 { return late().Replayed }),
		t.Counter("sidecall.journal.forgotten", "Calls that the store had forgotten, and was told of again: late settlements, and calls still running.",
			func() int64 { return late().Forgotten }),
		t.Counter("sidecall.journal.superseded", "Results in the journal whose calls were decided otherwise before it was replayed.",
			func() int64 { return late().Superseded }),
		t.Counter("sidecall.store.corrupt", "How often a record was met that cannot be what was written; the log names each.",
			calls.Corrupt),
		t.Counter("sidecall.journal.lost", "Results that neither the store nor the journal took.",
			func() int64 { return late().Lost }),
		t.Counter("sidecall.journal.damaged", "Entries of the journal that were found damaged.",
			func() int64 { return late().Damaged }))
}
