// Package upgrade proves that sidecars of this version and of a later one, which
// writes records of a layout that this one refuses, can share a Redis while they are
// replaced one after the other: no call runs twice, and none is lost.
//
// The later version is this tree with another number (test/testkit/harness).
package upgrade
