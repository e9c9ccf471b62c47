package tool

import (
	"encoding/json"
	"time"
)

// Discovered is a tool that a backend found.
type Discovered struct {
	Name         string // as the backend calls it
	Description  string
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage // nil when there is none
	// Effect is what the backend's own annotations claim. It counts only when
	// the operator trusts them; Claimed is false when there is no claim.
	Effect      Effect
	Claimed     bool
	Annotations map[string]string
	// Keyed: its server says that it honours the idempotency key of a call.
	Keyed bool
	// Wishes of how it is called; nil for none. They count where the config says
	// nothing.
	Wishes *Wishes
	// Declaration is the backend's own word for what it was declared as. It is handed back
	// with each call that was checked by this; nil where there is none.
	Declaration any
}

// Wishes are what a discovered tool says of how it wants to be called. Zero says
// nothing.
type Wishes struct {
	// As in Policy.
	Sequential, Polling, FailsCleanly, CancelWithCaller bool
	AttemptTimeout, Deadline                            time.Duration
}
