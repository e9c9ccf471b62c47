package dedupe_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sidecall/sidecall/dedupe"
)

func FuzzAppendToALog(f *testing.F) {
	f.Add([]byte(nil), uint8(3))
	f.Add(dedupe.Append{Entry: []byte("one"), Keep: 2}.AppendTo(nil), uint8(1))
	f.Add([]byte{2, 0, 1, 'a', 0xff, 0xff}, uint8(2))
	f.Add([]byte{0xff, 0xff, 0, 1, 'a'}, uint8(200))
	f.Fuzz(func(t *testing.T, log []byte, keep uint8) {
		a := dedupe.Append{Entry: []byte("new"), Keep: max(1, int(keep)%(dedupe.MaxLogEntries+1))}
		before, damaged := dedupe.DecodeLog(log)
		after, err := dedupe.DecodeLog(a.AppendTo(log))
		if damaged != nil {
			if !errors.Is(damaged, dedupe.ErrCorrupt) {
				t.Errorf("the error is %v", damaged)
			}
			return // whatever can be read of it later is advice
		}
		if err != nil {
			t.Fatalf("a log that was well: %v", err)
		}
		want := slices.Concat(before, [][]byte{a.Entry})
		want = want[max(0, len(want)-a.Keep):]
		if fmt.Sprintf("%q", after) != fmt.Sprintf("%q", want) {
			t.Errorf("%q and one more is %q, want %q", before, after, want)
		}
	})
}

func TestALogThatCannotBeOneBeginsAnew(t *testing.T) {
	a := dedupe.Append{Entry: []byte("new"), Keep: 3}
	for _, log := range [][]byte{{7}, {0, 0, 1, 'a'}, {0xff, 0xff}, {129, 0, 1, 'a'}, {3, 0, 9, 'a', 'b', 'c', 'd', 'e', 'f', 'g'}} {
		if got := a.AppendTo(log); !bytes.Equal(got, a.AppendTo(nil)) {
			t.Errorf("%x and one more is %x", log, got)
		}
	}
}
