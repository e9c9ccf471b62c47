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

// The bytes of a sealed record are read by other versions, and written by scripts.
func TestTheLayoutOfASealedRecord(t *testing.T) {
	t.Parallel()
	record, got := sealed()
	want := unhex(t, "04"+wholeFixed[2:]+wholeCharges+"00000004"+"f6962291"+"1f1bbe7a")
	if want = append(want, "paid"...); !bytes.Equal(got, want) {
		t.Errorf("stored as\n%x, want\n%x", got, want)
	}
	back, err := DecodeSealed(got)
	if diff := cmp.Diff(record, back); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// The version before had no seal, and the one before that no charges either.
func TestARecordWithoutASealIsRead(t *testing.T) {
	t.Parallel()
	want, _ := sealed()
	for version, text := range map[byte]string{3: "03" + wholeFixed[2:] + wholeCharges, 2: "02" + wholeFixed[2:]} {
		if version == 2 {
			want.Charges = nil
		} else {
			want.Charges = whole().Charges
		}
		got, err := DecodeSealed(append(unhex(t, text), "paid"...))
		if diff := cmp.Diff(want, got); err != nil || diff != "" || !KnownLayout(version) {
			t.Errorf("version %d: %v %s", version, err, diff)
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
			if i == markAt && flip == 1 {
				if err != nil || got.Mark {
					t.Errorf("without its mark: %v", err)
				}
				continue
			}
			if !errors.Is(err, ErrCorrupt) {
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
	f.Add(append(unhex(f, "03"+wholeFixed[2:]+wholeCharges), "result"...))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeSealed(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("got %v", err)
			}
			return
		}
		again := got.AppendSealed(nil)
		if b[0] == layoutSealed && !bytes.Equal(again, b) {
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

func BenchmarkUnsealed(b *testing.B) {
	record, _ := sealed()
	buffer := append(record.AppendTo(nil), bytes.Repeat([]byte("x"), 2000)...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeSealed(buffer); err != nil {
			b.Fatal(err)
		}
	}
}
