package main

import (
	"github.com/sidecall/sidecall/test/prove/fuzz"
	"github.com/sidecall/sidecall/test/prove/mutants"
)

// leastRuns are the figures that a row has to reach in full size, where a figure
// was promised: with fewer runs it is not that proof, however well it went. They
// stand here and not beside the tests, so that a test that is made shorter fails.
var leastRuns = map[string]int{
	"kill -9 at every step of a call [embedded]":                                       1_000,
	"kill -9 at every step of a call [redis]":                                          1_000,
	"kill -9 at every step of hold, approve and run [embedded]":                        500,
	"kill -9 at every step of hold, approve and run [redis]":                           500,
	"16 duplicates of each id over 4 sidecars [redis]":                                 100_000, // ids
	"4 ids of each effect over 3 sidecars, kill -9 [redis]":                            10_000,  // effects
	"4 ids of each effect over 1 sidecars, kill -9 [embedded]":                         10_000,  // effects
	"reply to claim lost and the connection closed [redis]":                            10_000,
	"reply to settle lost and the connection closed [redis]":                           10_000,
	"Sentinel failover, replication link cut [redis, wait_replicas: 1]":                50_000, // acknowledged claims
	"concurrent histories, linearizable [memory]":                                      10_000,
	"concurrent histories, linearizable [redis]":                                       10_000,
	"concurrent histories, linearizable [embedded]":                                    10_000,
	"calls of several processes, stopped past their lease and killed [redis]":          10_000,
	"pods replaced one after the other under 200 calls/s [redis]":                      9_000, // ids, 100 between one replacement and the next
	"restarted beside its agent under 200 calls/s [embedded]":                          6_000, // likewise
	"dead upstream: connections refused [embedded]":                                    deadCalls,
	"dead upstream: connections refused, breaker off [embedded]":                       deadCalls,
	"dead upstream: accepts, then closes [redis]":                                      deadCalls,
	"dead upstream: accepts, then closes, breaker off [redis]":                         deadCalls,
	"dead upstream: 503 with Retry-After [embedded]":                                   deadCalls,
	"dead upstream: 503 with Retry-After, breaker off [embedded]":                      deadCalls,
	"dead upstream: accepts, never answers [redis]":                                    deadCalls,
	"dead upstream: accepts, never answers, breaker off [redis]":                       deadCalls,
	"250 endless bodies at once [embedded]":                                            250,
	"400 arguments of 4 MiB at once [embedded]":                                        400,
	"callers leave calls at work, and send them again [embedded]":                      1_200,
	"callers leave calls at work, and send them again [redis]":                         1_200,
	"results of 2.9 MB of images, in batches [embedded]":                               200,
	"every caller leaves its call at work, http [embedded]":                            10_000,
	"every caller leaves its call at work, MCP [embedded]":                             10_000,
	"every caller leaves its call at work, exec [embedded]":                            500,
	"streams of health and reflection with packed names of 4 MiB, not read [embedded]": 1_200,
	"streams on which nothing is sent [embedded]":                                      160_000,
	"streams with 400 headers on which nothing is sent [embedded]":                     16_000,
	"100 compacting loads of 60 MB at once [embedded]":                                 100,
	"records of running calls dropped [redis]":                                         1_000,
	"Redis's clock jumps while calls run [redis]":                                      1_200,
	"loop killed at every point of its conversation, anthropic [embedded]":             1_000,
	"loop killed at every point of its conversation, openai [embedded]":                1_000,
	"loop killed at every point of its conversation, openai-responses [embedded]":      1_000,
	"loop killed at every point of its conversation, anthropic [redis]":                1_000,
	"loop killed at every point of its conversation, openai [redis]":                   1_000,
	"loop killed at every point of its conversation, openai-responses [redis]":         1_000,
	"conformance on every kind of Redis [redis]":                                       583, // 53 cases, 11 kinds
	"worker, agent or sidecar killed at every step, each with each store and language": 144,
	"calls under way on a Cluster that loses a master [redis, wait_replicas: 1]":       6_000,
	"calls under way on a Cluster that loses a replica [redis, wait_replicas: 1]":      6_000,
	"MCP front 2025-11-25: streams cut in mid-call, calls sent again [embedded]":       1_000,
	"MCP front 2026-07-28: streams cut in mid-call, calls sent again [embedded]":       1_000,
	"MCP front on stdio: pipes cut in mid-call, calls sent again [embedded]":           1_000,
	"MCP wrapper: client's pipe cut in mid-call, calls sent again [embedded]":          1_000,
	"MCP wrapper: server's pipe cut in mid-call, calls sent again [embedded]":          1_000,
	"mutants":       len(mutants.All()),
	"fuzzed inputs": len(fuzz.Targets),

	// No figure was promised of these: what they do in full size.
	"handshake longer than the lease, settled as not run, sent again: http/1.1 [redis]":    1_000, // calls
	"handshake longer than the lease, settled as not run, sent again: http/2 [redis]":      1_000,
	"file damaged or gone under the running sidecar [embedded]":                            200,
	"owner stopped, succeeded by the next process of its instance, then continued [redis]": 300,
	"calls of incarnations that are killed, or stopped and succeeded [redis]":              10_000,
}

// deadCalls are 1,000 calls/s for 60 s, less the share that the load may be behind
// on a busy machine; the proof itself judges the rate.
const deadCalls = 57_000
