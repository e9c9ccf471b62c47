package dedupe

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sealed is a record with everything in it, and its bytes.
func sealed() (s Stored, b []byte) {
	s = whole()
	s.Result = []byte("paid")
	return s, s.AppendSealed(nil)
}

// The bytes of a sealed record are read by other versions.
func TestTheLayoutOfASealedRecord(t *testing.T) {
	t.Parallel()
	record, got := sealed()
	want := unhex(t, wholeFixed+wholeCounter+"296d7691")
	if want = append(want, "paid"...); !bytes.Equal(got, want) {
		t.Errorf("stored as\n%x, want\n%x", got, want)
	}
	back, err := DecodeSealed(got)
	if diff := cmp.Diff(record, back); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// A record without a seal is not read where one has to be.
func TestARecordWithoutASeal(t *testing.T) {
	t.Parallel()
	record := whole()
	unsealed := record.AppendSealed(nil)
	unsealed = unsealed[:len(unsealed)-sealBytes]
	for _, result := range []string{"", "paid", "a result that is longer than a seal"} {
		if got, err := DecodeSealed(append(slices.Clone(unsealed), result...)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("with the result %q it is read as %+v, %v", result, got, err)
		}
	}
}

// No byte of a sealed record can become another without being noticed, but for
// its mark, which decides nothing.
func TestAnyByteOfASealedRecordCounts(t *testing.T) {
	t.Parallel()
	_, sound := sealed()
	for i := range sound {
		for _, flip := range []byte{1, 2, 4, 8, 16, 32, 64, 128, 255} {
			bad := slices.Clone(sound)
			bad[i] ^= flip
			got, err := DecodeSealed(bad)
			if i == MarkAt && flip == 1 {
				if err != nil || got.Mark {
					t.Errorf("without its mark: %v", err)
				}
				continue
			}
			want := ErrCorrupt
			if i == 0 {
				want = ErrLayout
			}
			if !errors.Is(err, want) {
				t.Errorf("byte %d became %#x, and it is read as %+v, %v", i, bad[i], got, err)
			}
		}
		if got, err := DecodeSealed(sound[:i]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("of %d bytes, %d are read as %+v, %v", len(sound), i, got, err)
		}
	}
	if got, err := DecodeSealed(append(slices.Clone(sound), 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("with a byte too many it is read as %+v, %v", got, err)
	}
}

// A seal makes nothing possible that cannot be.
func TestAnImpossibleRecordUnderASeal(t *testing.T) {
	t.Parallel()
	for _, state := range []State{Absent, 9} {
		record := whole()
		record.State = state
		if got, err := DecodeSealed(record.AppendSealed(nil)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%v: read as %+v, %v", state, got, err)
		}
	}
}

// Any bytes are an error or a record, which is stored as the same bytes.
func FuzzSealed(f *testing.F) {
	_, b := sealed()
	f.Add(b)
	f.Add(append(unhex(f, wholeFixed+wholeCounter), "result"...))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeSealed(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrLayout) {
				t.Errorf("got %v", err)
			}
			return
		}
		again := got.AppendSealed(nil)
		if !bytes.Equal(again, b) {
			t.Errorf("%x is stored anew as %x", b, again)
		}
		if same, err := DecodeSealed(again); err != nil || !cmp.Equal(same, got) {
			t.Errorf("%+v came back as %+v, %v", got, same, err)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	record, _ := sealed()
	record.Result = bytes.Repeat([]byte("x"), 2000)
	buffer := record.AppendSealed(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeSealed(buffer); err != nil {
			b.Fatal(err)
		}
	}
}
