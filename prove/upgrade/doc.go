// Package upgrade proves that sidecars of this version and of the one before,
// which write records of another layout, can share a Redis while they are replaced
// one after the other: no call runs twice, and none is lost.
package upgrade

// Before is the commit that stands for the version before: the last one that wrote
// records without a seal. It is built from the history of the repository.
const Before = "2f4981da544e18fd43366f2aa5f16cef72d42e68"
