package main

import "time"

// steps are all proofs, in the order of the table.
var steps = []step{
	{
		name: "crash", pkg: "./prove/crash", run: ".", race: true,
		short: 8 * time.Minute, full: 90 * time.Minute,
		rows: []string{
			"failpoints in the release build",
			"kill -9 at every step of a call [embedded]",
			"kill -9 at every step of a call [redis]",
			"kill -9 at random moments under load [embedded]",
			"kill -9 at random moments under load [redis]",
			"owner stopped past its lease, then continued [embedded]",
			"owner stopped past its lease, then continued [redis]",
			"panic at every step of a call [embedded]",
			"panic at every step of a call [redis]",
			"panic at every call [embedded]",
			"16 duplicates of each id over 4 sidecars [redis]",
			"16 duplicates of each id over 1 sidecars [embedded]",
			"file damaged while the sidecar is down [embedded]",
			"disk full [embedded]",
		},
	},
	{
		name: "redis replies, failover, upstream links", pkg: "./prove/redisfault", run: ".", race: true,
		short: 5 * time.Minute, full: 30 * time.Minute,
		rows: []string{
			"Sentinel failover, replication link cut [redis, wait_replicas: 1]",
			"reply to claim lost and the connection closed [redis]",
			"reply to settle lost and the connection closed [redis]",
			"reply to claim lost and the connection stays open [redis]",
			"reply to settle lost and the connection stays open [redis]",
			"reply to claim lost in packets torn everywhere [redis]",
			"reply to settle lost in packets torn everywhere [redis]",
			"reply to claim or settle lost, two whole sidecars [redis]",
			"slow and lossy store link, two whole sidecars [redis]",
			"every call again after a Sentinel failover, replication link cut [redis, wait_replicas: 1]",
			"upstream connection broken in every place, http/1.1 [embedded]",
			"upstream connection broken in every place, http/2 [embedded]",
		},
	},
	{
		name: "journal", pkg: "./prove/journal", run: ".",
		short: 5 * time.Minute, full: 30 * time.Minute,
		rows: []string{
			"store down at settle, then back [redis]",
			"store down at settle, sidecar killed too [redis]",
			"sidecar killed while it journals [redis]",
			"journal damaged",
		},
	},
	{
		name: "topology", pkg: "./prove/topology", run: "^TestThe",
		short: 5 * time.Minute, full: 25 * time.Minute,
		rows: []string{
			"SCRIPT FLUSH under load [redis]",
			"Redis restarted under load (AOF) [redis]",
			"Cluster failover under load, wait_replicas 1 [redis]",
			"Cluster resharding under load [redis]",
			"Redis stopped and continued (SIGSTOP) under load [redis]",
		},
	},
	{
		name: "rolling upgrade", pkg: "./prove/upgrade", run: ".",
		short: 5 * time.Minute, full: 15 * time.Minute,
		rows: []string{"rolling upgrade under load, both versions on one Redis [redis]"},
	},
	{
		name: "transports", pkg: "./prove/transports", run: ".", skip: "^TestRedisSilent$",
		short: 4 * time.Minute, full: 60 * time.Minute,
		rows: []string{
			"http/1.1: executed, then broken, connection reused [embedded]",
			"http/1.1: executed, then redirected (301 to 308) [embedded]",
			"http/1.1: request half written, keep-alive race [embedded]",
			"http/1.1: 408, 429 or 5xx in the middle of the work [embedded]",
			"http/2: REFUSED_STREAM, GOAWAY under our stream [embedded]",
			"http/2: RST_STREAM of every code, GOAWAY at or above our stream, cut after the headers [embedded]",
			"MCP streamable HTTP: answer lost, stream cut, session lost [embedded]",
			"MCP stdio: server killed in the middle of a call [embedded]",
			"go-redis: reply of a write lost [redis]",
			"gRPC clients: connection lost with the answer [embedded]",
			"callers leave calls at work, and send them again [embedded]",
			"callers leave calls at work, and send them again [redis]",
		},
	},
	{
		name: "silent server", pkg: "./prove/transports", run: "^TestRedisSilent$", clock: true,
		short: 4 * time.Minute, full: 10 * time.Minute,
		rows: []string{"go-redis: server falls silent [redis]"},
	},
	{
		name: "verification", pkg: "./prove/verify", run: ".",
		short: 4 * time.Minute, full: 30 * time.Minute,
		rows: []string{
			"answer lost, request swallowed, effect late, kill -9: verification decides [embedded]",
			"answer lost, request swallowed, effect late, kill -9: verification decides [redis]",
		},
	},
	{
		name: "waiters", pkg: "./prove/waiters", run: ".", clock: true,
		short: 3 * time.Minute, full: 15 * time.Minute,
		rows: []string{
			"duplicate arrives at another sidecar [redis]",
			"duplicate elsewhere, no hint arrives [redis]",
			"duplicate elsewhere, subscription cut all the time [redis]",
		},
	},
	{
		name: "histories", pkg: "./prove/histories", run: "^Test(Memory|Redis|Embedded|Calls)$",
		short: 6 * time.Minute, full: 40 * time.Minute,
		rows: []string{
			"concurrent histories, linearizable [memory]",
			"concurrent histories, linearizable [redis]",
			"concurrent histories, linearizable [embedded]",
			"calls of several processes, stopped past their lease and killed [redis]",
		},
	},
	{
		name: "mutants", pkg: "./prove/mutants", run: "^TestMutants$",
		short: 8 * time.Minute, full: 60 * time.Minute,
		rows: []string{"mutants"},
	},
	{
		name: "demo", pkg: "./prove/demo", run: ".", clock: true,
		short: 3 * time.Minute, full: 5 * time.Minute,
		rows: []string{"demo in less than 15 s"},
	},
	{
		name: "overload", pkg: "./prove/overload", run: "TestFiveTimes", clock: true,
		short: 5 * time.Minute, full: 15 * time.Minute,
		rows: []string{
			"5 x what the backend serves [embedded]",
			"5 x what the backend serves [redis]",
			"5 x what a backend with a queue serves [redis]",
		},
		fullRows: []string{"5 x what the sidecar's processor serves (half of the peak, RSS under 768 MiB) [redis]"},
	},
	{
		name: "dead upstream", pkg: "./prove/overload", run: "TestDeadUpstreams", clock: true,
		short: 4 * time.Minute, full: 15 * time.Minute,
		rows: []string{
			"dead upstream: connections refused [embedded]",
			"dead upstream: connections refused, breaker off [embedded]",
			"dead upstream: accepts, then closes [redis]",
			"dead upstream: accepts, then closes, breaker off [redis]",
			"dead upstream: 503 with Retry-After [embedded]",
			"dead upstream: 503 with Retry-After, breaker off [embedded]",
			"dead upstream: accepts, never answers [redis]",
			"dead upstream: accepts, never answers, breaker off [redis]",
		},
	},
	{
		name: "slow upstream", pkg: "./prove/overload", run: "TestSlowUpstream|TestFlappingUpstream|TestLostProbe", clock: true,
		short: 4 * time.Minute, full: 10 * time.Minute,
		rows: []string{
			"upstream ten times slower [embedded]",
			"upstream ten times slower [redis]",
			"upstream up and down every second [embedded]",
			"upstream up and down every second [redis]",
			"probe lost in half-open [embedded]",
			"probe lost in half-open [redis]",
			"probe panics in half-open [embedded]",
			"probe panics in half-open [redis]",
		},
	},
	{
		name: "soak", pkg: "./prove/overload", run: "TestSoak", clock: true,
		short: 4 * time.Minute, full: 35 * time.Minute,
		rows: []string{"soak at full load [embedded]", "soak at full load [redis]"},
	},
	{
		name: "fuzz", pkg: "./prove/fuzz", run: ".", clock: true,
		short: 5 * time.Minute, full: 60 * time.Minute,
		rows: []string{"fuzzed inputs"},
	},
}
