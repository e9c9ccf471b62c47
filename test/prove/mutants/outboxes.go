package mutants

// outboxes: what waits for a collector has a bound, and what is lost is counted.
func outboxes() []Mutant {
	const file = "internal/telemetry/outbox.go"
	stuck := test("./internal/telemetry", "TestAnOutboxOfAStuckExporter")
	return []Mutant{
		one("telemetry: there is always room to wait", file, "if o.waiting.Add(1) > o.capacity {", "if o.waiting.Add(1) > o.capacity && false {", stuck),
		one("telemetry: what could not be sent counts as sent", file, "if err != nil {\n\t\to.failed", "if false {\n\t\to.failed", stuck),
		one("telemetry: what was sent waits for ever", file, "o.waiting.Add(-int64(n))\n", "\n", stuck),
	}
}
