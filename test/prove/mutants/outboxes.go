package mutants

// outboxes: what waits for a collector has a bound, and what is lost is counted.
func outboxes() []Mutant {
	stuck := test("./internal/telemetry", "TestAnOutboxOfAStuckExporter")
	return []Mutant{
		never("telemetry: there is always room to wait", "internal/telemetry.outbox.take", "capacity", stuck),
		never("telemetry: what could not be sent counts as sent", "internal/telemetry.outbox.settle", "err", stuck),
		without("telemetry: what was sent waits for ever", "internal/telemetry.outbox.settle", "waiting", stuck),
	}
}
