// Package telemetry measures what telemetry costs a call, and proves that a collector
// that is not there, or takes connections and never answers, costs no more than one that
// takes all it is sent.
package telemetry
