package mutants

// The files that calls are found by.
const (
	redisIndex    = "internal/store/redisstore/index.go"
	redisFind     = "internal/store/redisstore/find.go"
	embeddedOrder = "internal/store/embedded/ordered.go"
	embeddedFind  = "internal/store/embedded/find.go"
	embeddedIndex = "internal/store/embedded/index.go"
)

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
		one("redisstore: a claim is written before its entry", redisIndex, "slices.Insert(r.writes, 0, write{", "slices.Insert(r.writes, len(r.writes), write{", ofRedis("TestWhatCannotBeIndexedIsNotClaimed")),
		one("redisstore: the first entries of a shard pass for all", redisFind, "			p.known = min(p.known, e)\n", "", onRedis("many_calls")),
		one("redisstore: entries are listed before those of others are known", redisFind, "return p.known < bound }", "return p.known < min(bound, \"\\x00\") }", onRedis("many_calls")),
		one("redisstore: an earlier claim is listed too", redisFind, "current = !slices.ContainsFunc(told", "current = true || slices.ContainsFunc(told", onRedis("what_is_forgotten")),
		one("redisstore: who has another term now was never seen", redisFind, "current = !slices.ContainsFunc(told", "current = false && slices.ContainsFunc(told", onRedis("what_is_forgotten")),
		one("embedded: postings of an earlier claim stay", embeddedIndex, "	for _, p := range c.outdated {\n		x.terms.remove(p)\n	}\n", "", in("TestAStoreIsAMap")),
		one("embedded: postings outlast their rows", embeddedIndex, "		if c.gone {", "		if c.gone && c.outdated != nil {", in("TestWhatIsFoundIsMoved")),
		one("embedded: terms of an earlier claim are forgotten", embeddedRows, "		v.add(before.terms)\n", "", in("TestACallKeepsItsTerms")),
		one("embedded: an earlier claim stays in front", embeddedRows, "if dedupe.Millis(record.StartedAt) <= before.claimed {", "if true || record.StartedAt.IsZero() {", Suite{"./internal/store/embedded", "^TestConformance$/^a_call_is_found_once", conformance}),
		one("embedded: another's term passes for one's own", embeddedFind, " || !slices.Contains(v.terms, s.Term) {", " || false && slices.Contains(v.terms, s.Term) {", in("TestAPageOfWhatIsFoundIsBounded")),
		one("embedded: a page has no bound of bytes", embeddedFind, " || bytes > dedupe.MaxFoundBytes {", " {", in("TestAPageOfWhatIsFoundIsBounded")),
		one("embedded: postings are split and lost", embeddedOrder, "slices.Insert(o.chunks, i+1, fitted(chunk[cut:]))", "slices.Insert(o.chunks, i+1, fitted(chunk[:cut]))", in("TestPostingsAreInOrder")),
	}
}
