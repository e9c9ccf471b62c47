package server

import (
	"testing"

	"github.com/sidecall/sidecall/dedupe"
)

func TestWhatReadyzSaysOfTheJournal(t *testing.T) {
	for state, want := range map[dedupe.LateState]string{
		{}:                           "",
		{Replayed: 3, Forgotten: 1}:  "",
		{Waiting: 2}:                 "2 settlements wait in the journal",
		{Waiting: 1, InMemory: true}: "1 settlement waits in memory, until the store takes it or the process ends",
		{InMemory: true}:             "",
		{Lost: 1}:                    "1 settlement was lost: neither the store nor a journal has it, and the call stays unknown",
		{Waiting: 1, Damaged: 2}:     "1 settlement waits in the journal; 2 entries of the journal are damaged: what is left of it is kept there, see the log",
	} {
		got := journalReadiness(state)
		if want == "" && got != nil || want != "" && (got == nil || got.Detail != want) {
			t.Errorf("%+v: %+v, want %q", state, got, want)
		}
	}
}
