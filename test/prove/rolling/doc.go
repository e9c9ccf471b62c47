// Package rolling proves that sidecars can be replaced while agents call through them:
// one after the other behind one Redis, as Kubernetes replaces pods, and a single one
// with an embedded store beside its agent. Agents send an id again until it has its
// result; none is lost, and none is executed twice.
package rolling
