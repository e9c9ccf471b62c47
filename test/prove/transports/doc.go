// Package transports audits every transport that a call travels on: what it
// sends again behind its caller's back, and what comes of it. Each row of the
// table goes through the real sidecar process, and beside it stands a control,
// a client as its library ships it, which runs the call twice. A control that no
// longer does fails its row: then the fault is no fault any more.
package transports
