package mutants

// The files of what changes while a sidecar runs.
const (
	premises      = "internal/app/premises.go"
	generation    = "internal/app/generation.go"
	reload        = "internal/app/reload.go"
	workerAdopted = "internal/backend/worker/adopt.go"
)

// reloads: a config takes over whole, and calls end as they began.
func reloads() []Mutant {
	return []Mutant{
		one("reload: a config that needs a restart takes over", reload,
			"len(fixed) > 0 {", "len(fixed) > 100 {", test("./internal/app", "TestAConfigThatIsWrongIsRefusedAsAWhole")),
		one("reload: what calls still have is closed", generation,
			"errors.Join(g.tools.Retire(ctx), g.close(ctx), g.observed.Close())", "errors.Join(g.close(ctx), g.observed.Close())", test("./internal/app", "TestConfigsThatCallsHoldAreBounded")),
		one("reload: a backend that is kept is closed by the first that leaves it", premises,
			"h.users.Add(-1) > 0 {", "h.users.Add(-1) > 100 {", test("./internal/app", "TestAnMCPServerIsKeptAndItsToolsAreReadAnew")),
		one("reload: what workers register is looked at as before", workerAdopted,
			"b.examine = examine\n", "\n", test("./internal/backend/worker", "TestWhoIsToldOfAnotherConfig")),
		one("reload: workers are told nothing", workerAdopted,
			"count++\n\t\t\ts.part()", "count++", test("./internal/backend/worker", "TestWhoIsToldOfAnotherConfig")),
	}
}
