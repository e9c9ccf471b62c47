package server

import (
	"fmt"
	"strings"

	"github.com/sidecall/sidecall/dedupe"
)

// JournalReadiness is the part of /readyz about settlements that the store did
// not take in time. None of it makes a sidecar unready: calls can be taken.
type JournalReadiness struct {
	// Waiting is how many wait in the journal, or in memory, for the store.
	Waiting int `json:"waiting"`
	// Lost is how many neither the store nor the journal took, Damaged how many
	// entries of the journal were found that cannot be read, both since the start.
	Lost    int64 `json:"lost"`
	Damaged int64 `json:"damaged"`
	// Detail says it in words.
	Detail string `json:"detail"`
}

// journalReadiness returns nil when nothing is amiss.
func journalReadiness(state dedupe.LateState) *JournalReadiness {
	var parts []string
	if state.Waiting > 0 {
		where := "in the journal"
		if state.InMemory {
			where = "in memory, until the store takes it or the process ends"
		}
		parts = append(parts, counted(state.Waiting, "settlement waits ", "settlements wait ")+where)
	}
	if state.Lost > 0 {
		parts = append(parts, counted(state.Lost, "settlement was lost", "settlements were lost")+": neither the store nor a journal has it, and the call stays unknown")
	}
	if state.Damaged > 0 {
		parts = append(parts, counted(state.Damaged, "entry of the journal is damaged", "entries of the journal are damaged")+": what is left of it is kept there, see the log")
	}
	if len(parts) == 0 {
		return nil
	}
	return &JournalReadiness{
		Waiting: state.Waiting, Lost: state.Lost, Damaged: state.Damaged, Detail: strings.Join(parts, "; "),
	}
}

// counted puts a number before one word or several.
func counted[N int | int64](n N, one, several string) string {
	if n == 1 {
		several = one
	}
	return fmt.Sprintf("%d %s", n, several)
}
