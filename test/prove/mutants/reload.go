package mutants

// reloads: a config takes over whole, and calls end as they began.
func reloads() []Mutant {
	return []Mutant{
		instead("reload: a config that needs a restart takes over", "internal/app.succession.take", "0 {\n\t\treturn fixed\n\t}", "100 {\n\t\treturn fixed\n\t}", test("./internal/app", "TestAConfigThatIsWrongIsRefusedAsAWhole")),
		instead("reload: what calls still have is closed", "internal/app.generation.retire", "tools.Retire(ctx), g.close", "close", test("./internal/app", "TestConfigsThatCallsHoldAreBounded")),
		instead("reload: a backend that is kept is closed by the first that leaves it", "internal/app.host.leave", "Add(-1) > 0", "Add(-1) > 100", test("./internal/app", "TestAnMCPServerIsKeptAndItsToolsAreReadAnew")),
		without("reload: what workers register is looked at as before", "internal/backend/worker.Backend.Adopt", "examine", test("./internal/backend/worker", "TestWhoIsToldOfAnotherConfig")),
		without("reload: workers are told nothing", "internal/backend/worker.Backend.Adopt", "part", test("./internal/backend/worker", "TestWhoIsToldOfAnotherConfig")),
	}
}
