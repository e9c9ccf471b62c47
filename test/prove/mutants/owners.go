package mutants

// owners: a name, a record and a tool's place are not taken by who comes later.
func owners() []Mutant {
	const owner, request, session = "internal/catalog/owner.go", "server/request.go", "internal/backend/worker/session.go"
	keeps, said := test("./internal/catalog", "TestWhoServesANameKeepsIt"), test("./internal/catalog", "TestWhoseANameIsByTheConfig")
	return []Mutant{
		one("catalog: who sorts first takes a name", owner, "made := claim{owns: owned && (lists || awaited), serves: lists}", "made := claim{owns: owned && false, serves: lists}", keeps),
		one("catalog: a prefix keeps nobody out", owner, "made.config = 2 * len(s.announced.Prefix)", "made.config = 0", said),
		one("catalog: what the config mentions counts for nothing", owner, "made.config++\n", "\n", said),
		one("catalog: a config that takes over forgets whose names are", "internal/catalog/generation.go", "\tg.owned = owned\n", "\tg.owned = owned\n\tclear(owned)\n", test("./internal/catalog", "TestNamesOverAConfig")),
		one("server: the order of profiles makes a tenant", request, "slices.Sorted(slices.Values(offered))", "slices.Clone(offered)", test("./server", "TestListenersThatOfferTheSame")),
		one("server: a listener is no tenant", "server/grpc.go", `ofTenant(tenantOf(offered))`, `ofTenant("")`, test("./server", "TestAListenerReachesOnlyWhatCameThroughIt")),
		one("worker: what was under way proves that a worker lives", session, "if began && now != heard {", "if (began || true) && now != heard {", test("./internal/backend/worker", "TestAWorkerThatComesBeforeItsEnd")),
		one("worker: a worker of one tenant serves all", session, `(s.tenant == "" || s.tenant == call.Tenant)`, "true", test("./internal/backend/worker", "TestTenants")),
	}
}
