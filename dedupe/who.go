package dedupe

import (
	"encoding/json"
	"fmt"
	"time"
)

// Who tells of a process, to others that would be the same instance.
type Who struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// Since is when it started, by its own clock.
	Since time.Time `json:"since"`
	// World is what tells processes of one PID apart that are of different
	// machines, boots or containers; empty where nobody can say. Start tells
	// those apart that had the PID one after the other.
	World string `json:"world,omitempty"`
	Start string `json:"start,omitempty"`
}

// String says it in the words of a log line.
func (w Who) String() string {
	if w.PID == 0 {
		return "a process that does not say which"
	}
	return fmt.Sprintf("host %s, pid %d, since %s", w.Host, w.PID, w.Since.UTC().Format(time.RFC3339))
}

func (w Who) encode() string {
	b, err := json.Marshal(w)
	if err != nil || len(b) > MaxNameBytes {
		return ""
	}
	return string(b)
}

// decodeWho reads what encode has written; what it cannot read says nothing.
func decodeWho(text string) (w Who) {
	if json.Unmarshal([]byte(text), &w) != nil {
		return Who{}
	}
	return w
}

// RivalError is why a process ends, or does not start: another runs as the same
// instance.
type RivalError struct {
	Instance string
	Other    Who
}

// Error names the other process, and what to do about it.
func (e *RivalError) Error() string {
	return fmt.Sprintf("another process runs as instance %q (%v): set `instance` to a name that no other sidecar on this store has", e.Instance, e.Other)
}
