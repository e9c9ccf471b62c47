package main

import (
	"github.com/sidecall/sidecall/prove/fuzz"
	"github.com/sidecall/sidecall/prove/mutants"
)

// leastRuns are the figures that a row has to reach in full size, where a figure
// was promised: with fewer runs it is not that proof, however well it went. They
// stand here and not beside the tests, so that a test that is made shorter fails.
var leastRuns = map[string]int{
	"kill -9 at every step of a call [embedded]":                              1_000,
	"kill -9 at every step of a call [redis]":                                 1_000,
	"16 duplicates of each id over 4 sidecars [redis]":                        100_000, // ids
	"4 ids of each effect over 3 sidecars, kill -9 [redis]":                   10_000,  // effects
	"4 ids of each effect over 1 sidecars, kill -9 [embedded]":                10_000,  // effects
	"reply to claim lost and the connection closed [redis]":                   10_000,
	"reply to settle lost and the connection closed [redis]":                  10_000,
	"Sentinel failover, replication link cut [redis, wait_replicas: 1]":       50_000, // acknowledged claims
	"concurrent histories, linearizable [memory]":                             10_000,
	"concurrent histories, linearizable [redis]":                              10_000,
	"concurrent histories, linearizable [embedded]":                           10_000,
	"calls of several processes, stopped past their lease and killed [redis]": 10_000,
	"dead upstream: connections refused [embedded]":                           deadCalls,
	"dead upstream: connections refused, breaker off [embedded]":              deadCalls,
	"dead upstream: accepts, then closes [redis]":                             deadCalls,
	"dead upstream: accepts, then closes, breaker off [redis]":                deadCalls,
	"dead upstream: 503 with Retry-After [embedded]":                          deadCalls,
	"dead upstream: 503 with Retry-After, breaker off [embedded]":             deadCalls,
	"dead upstream: accepts, never answers [redis]":                           deadCalls,
	"dead upstream: accepts, never answers, breaker off [redis]":              deadCalls,
	"250 endless bodies at once [embedded]":                                   250,
	"400 arguments of 4 MiB at once [embedded]":                               400,
	"callers leave calls at work, and send them again [embedded]":             1_200,
	"callers leave calls at work, and send them again [redis]":                1_200,
	"mutants":       len(mutants.All()),
	"fuzzed inputs": len(fuzz.Targets),
}

// deadCalls are 1,000 calls/s for 60 s, less the share that the load may be behind
// on a busy machine; the proof itself judges the rate.
const deadCalls = 57_000
