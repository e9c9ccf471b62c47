// Package overload proves what a sidecar does when there is too much of
// everything: five times the calls that it or a backend can serve, upstreams
// that are dead, slow or come and go, and full load for a long time.
//
// The load comes from here: in an open loop, which goes on at its rate whatever
// becomes of the calls, as many agents together do, or in a closed one, whose
// callers wait for each other's results, which finds out how much there can be
// at most. Latency counts from the instant at which a call was to start, so that
// a load generator that is late hides nothing.
package overload
