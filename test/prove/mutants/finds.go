package mutants

// finds: each call that has a term is found, once, for as long as it is to be.
func finds() []Mutant {
	onRedis := func(cases string) Suite {
		return Suite{"./internal/store/redisstore", "^TestOneServer$/^(" + cases + ")", conformance}
	}
	ofRedis := func(name string) Suite { return test("./internal/store/redisstore", name) }
	in := func(name string) Suite { return test("./internal/store/embedded", name) }
	return []Mutant{
		one("step.lua: who is claimed again is found twice", stepLua, "    if what == 'X' then\n      redis.call('ZREM', key, unpack(entries))\n", "    if what == 'X' then\n", onRedis("a_call_is_found_once")),
		one("step.lua: an index has no end", stepLua, "        redis.call('PEXPIRE', key, amount, 'NX')\n", "", ofRedis("TestTheIndexInRedis")),
		one("step.lua: an index ends with its first entry", stepLua, "redis.call('PEXPIRE', key, amount, 'GT') == 0 then", "true then", ofRedis("TestTheIndexInRedis")),
		one("step.lua: an index that is none is found empty", stepLua, "redis.call('EXISTS', unpack(keys, number, last)) > 0 and number or last + 1", "last + 1", onRedis("calls_are_found")),
		instead("redisstore: a claim is written before its entry", "internal/store/redisstore.draft.before", "0, write", "len(r.writes), write", ofRedis("TestWhatCannotBeIndexedIsNotClaimed")),
		without("redisstore: the first entries of a shard pass for all", "internal/store/redisstore.partOf", "min", onRedis("many_calls")),
		instead("redisstore: entries are listed before those of others are known", "internal/store/redisstore.first", "< bound", `< min(bound, "\x00")`, onRedis("many_calls")),
		instead("redisstore: an earlier claim is listed too", "internal/store/redisstore.finding.call", "!slices", "true || slices", onRedis("what_is_forgotten")),
		instead("redisstore: who has another term now was never seen", "internal/store/redisstore.finding.call", "!slices", "false && slices", onRedis("what_is_forgotten")),
		without("embedded: postings of an earlier claim stay", "internal/store/embedded.index.post", "outdated", in("TestAStoreIsAMap")),
		instead("embedded: postings outlast their rows", "internal/store/embedded.index.post", "gone {", "gone && c.outdated != nil {", in("TestWhatIsFoundIsMoved")),
		without("embedded: terms of an earlier claim are forgotten", "internal/store/embedded.txn.supersede", "terms", in("TestACallKeepsItsTerms")),
		always("embedded: an earlier claim stays in front", "internal/store/embedded.txn.supersede", "StartedAt", Suite{"./internal/store/embedded", "^TestConformance$/^a_call_is_found_once", conformance}),
		never("embedded: another's term passes for one's own", "internal/store/embedded.foundBy", "Contains", in("TestAPageOfWhatIsFoundIsBounded")),
		never("embedded: a page has no bound of bytes", "internal/store/embedded.find", "MaxFoundBytes", in("TestAPageOfWhatIsFoundIsBounded")),
		instead("embedded: postings are split and lost", "internal/store/embedded.ordered.put", "[cut:]", "[:cut]", in("TestPostingsAreInOrder")),
	}
}
