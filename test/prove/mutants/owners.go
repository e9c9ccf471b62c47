package mutants

// owners: a name, a record and a tool's place are not taken by who comes later.
func owners() []Mutant {
	keeps, said := test("./internal/catalog", "TestWhoServesANameKeepsIt"), test("./internal/catalog", "TestWhoseANameIsByTheConfig")
	return []Mutant{
		never("catalog: who sorts first takes a name", "internal/catalog.source.claim", "owned && (lists || awaited)", keeps),
		instead("catalog: a prefix keeps nobody out", "internal/catalog.source.claim", "2 * len(s.announced.Prefix)", "0", said),
		instead("catalog: what the config mentions counts for nothing", "internal/catalog.source.claim", "made.config++", "", said),
		instead("catalog: a config that takes over forgets whose names are", "internal/catalog.Generation.Inherit", "owned\n\tg", "owned\n\tclear(owned)\n\tg", test("./internal/catalog", "TestNamesOverAConfig")),
		instead("server: the order of profiles makes a tenant", "server.tenantOf", "Sorted(slices.Values(offered))", "Clone(offered)", test("./server", "TestListenersThatOfferTheSame")),
		instead("server: a listener is no tenant", "server.GRPC.agents", "tenantOf(offered)", `""`, test("./server", "TestAListenerReachesOnlyWhatCameThroughIt")),
		always("worker: what was under way proves that a worker lives", "internal/backend/worker.session.proven", "began", test("./internal/backend/worker", "TestAWorkerThatComesBeforeItsEnd")),
		always("worker: a worker of one tenant serves all", "internal/backend/worker.session.takes", `tenant == ""`, test("./internal/backend/worker", "TestTenants")),
	}
}
