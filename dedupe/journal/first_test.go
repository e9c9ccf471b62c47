package journal

import (
	"bytes"
	"os"
	"testing"

	"github.com/sidecall/sidecall/dedupe"
)

// A journal that the version before has left behind is replayed.
func TestAJournalOfTheFirstLayoutIsRead(t *testing.T) {
	file, err := os.ReadFile("testdata/first.bin")
	if err != nil {
		t.Fatal(err)
	}
	d := newDisk()
	d.put(path, file)
	j := reopen(t, d, 0)
	// Its instants were kept in nanoseconds, and are told in milliseconds.
	got := j.entries(t)
	if len(got) != 5 {
		t.Fatalf("%d entries, want 5", len(got))
	}
	for n := range got {
		want := entry(n)
		if at := got[n].Claim.StartedAt; at.UnixMilli() != 1000 {
			t.Errorf("entry %d was started at %v", n, at)
		}
		want.Claim.StartedAt = got[n].Claim.StartedAt
		if !bytes.Equal(encode(got[n]), encode(want)) {
			t.Errorf("entry %d is\n%+v, want\n%+v", n, got[n], want)
		}
	}
	j.fill(t, 5, 7) // beside those of today
	closeNow(t, j.Journal)
	again := reopen(t, d, 0)
	if len(again.entries(t)) != 7 {
		t.Error("what was added is lost")
	}
	if j.Damaged()+again.Damaged() != 0 {
		t.Error("it counts as damaged")
	}
}

// What a claim was charged is told to a store that has forgotten the call.
func TestChargesWaitToo(t *testing.T) {
	d := newDisk()
	j := reopen(t, d, 0)
	late := entry(1)
	late.Claim.Charges = []dedupe.Charge{{Counter: "prompt", Amount: 3}}
	if err := j.Append(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	closeNow(t, j.Journal)
	got, ok := reopen(t, d, 0).Find(late.Settlement.Key)
	if !ok || len(got.Claim.Charges) != 1 || got.Claim.Charges[0] != late.Claim.Charges[0] {
		t.Errorf("found %+v", got.Claim)
	}
}
