package dedupe

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/internal/tool"
)

// whole is a record with everything in it.
func whole() Stored {
	return Stored{
		Record: Record{
			State: Done, Effect: tool.Keyed, Attempts: 3, Epoch: 2, Owner: "here.1", Tool: "refund", Fingerprint: [32]byte{7, 31: 9},
			StartedAt: time.UnixMilli(1e12).UTC(), FinishedAt: time.UnixMilli(1e12 + 5).UTC(),
			Counter: "prompt", Details: []byte(`{"a":1}`), Approval: []byte("ada"),
		},
		Mark: true, Retention: 24 * time.Hour,
	}
}

const (
	wholeFixed = "01" + "02" + "03" + "01" + "00000003" + "0000000000000002" +
		"000000e8d4a51000" + "000000e8d4a51005" + "0000000000000000" + "0000000005265c00" +
		"0700000000000000000000000000000000000000000000000000000000000009" + "0006686572652e31" + "0006726566756e64"
	wholeCounter = "000670726f6d7074" + "00077b2261223a317d" + "0003616461"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// resealed is what stands for a record, with the seal that it ought to have and no result.
func resealed(body []byte) []byte {
	if len(body) <= MarkAt {
		return body
	}
	return binary.BigEndian.AppendUint32(slices.Clone(body), seal(body, nil))
}

// The bytes of a record are read by other versions, and by scripts.
func TestTheLayoutOfARecord(t *testing.T) {
	t.Parallel()
	record := whole()
	want := resealed(unhex(t, wholeFixed+wholeCounter))
	if got := record.AppendSealed(nil); !bytes.Equal(got, want) {
		t.Errorf("stored as\n%x, want\n%x", got, want)
	}
	got, err := DecodeSealed(want)
	if diff := cmp.Diff(record, got); err != nil || diff != "" {
		t.Errorf("read: %v: %s", err, diff)
	}
	record.Counter, record.Details, record.Approval, record.Mark = "", nil, nil, false
	bare := record.AppendSealed(nil)
	if body := bare[:len(bare)-sealBytes]; len(body) != StoredBytes+len("here.1refund") || !bytes.HasSuffix(body, []byte("refund\x00\x00\x00\x00\x00\x00")) {
		t.Errorf("without a counter it is stored as\n%x", body)
	}
}

// What another version has written is not damaged: it says so, whatever follows.
func TestAnotherLayout(t *testing.T) {
	t.Parallel()
	record := whole()
	for _, version := range []byte{0, LayoutVersion + 1, 255} {
		other := record.AppendSealed(nil)
		other[0] = version
		_, whole := DecodeSealed(other)
		_, unsealed := DecodeSealed(other[:len(other)-sealBytes])
		_, short := DecodeSealed(other[:1])
		for what, err := range map[string]error{"whole": whole, "unsealed": unsealed, "short": short} {
			if !errors.Is(err, ErrLayout) || errors.Is(err, ErrCorrupt) {
				t.Errorf("version %d, %s: %v", version, what, err)
			}
		}
	}
}

// What no store has written is corrupt, and nothing plausible.
func TestImpossibleRecords(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Stored){
		"absent":                func(s *Stored) { s.State = Absent },
		"in no state":           func(s *Stored) { s.State = 9 },
		"of no effect known":    func(s *Stored) { s.Effect = tool.Keyed + 1 },
		"of too many attempts":  func(s *Stored) { s.Attempts = math.MaxInt32 + 1 },
		"before its first":      func(s *Stored) { s.State, s.Epoch = NotRun, 0 },
		"of too much approval":  func(s *Stored) { s.Approval = make([]byte, MaxApprovalBytes+1) },
		"of a negative epoch":   func(s *Stored) { s.Epoch = -1 },
		"of nobody":             func(s *Stored) { s.Owner = "" },
		"of too long an owner":  func(s *Stored) { s.Owner = string(make([]byte, MaxNameBytes+1)) },
		"of too long a tool":    func(s *Stored) { s.Tool = string(make([]byte, MaxNameBytes+1)) },
		"kept for no time":      func(s *Stored) { s.Retention = 0 },
		"kept for less than no": func(s *Stored) { s.Retention = -time.Hour },
		"of too long a counter": func(s *Stored) { s.Counter = string(make([]byte, MaxCounterBytes+1)) },
	} {
		record := whole()
		change(&record)
		if err := record.Verify(); !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrInvalid) {
			t.Errorf("a record %s: got %v", name, err)
		}
		if got, err := DecodeSealed(record.AppendSealed(nil)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a record %s is read as %+v, %v", name, got, err)
		}
	}
	record := whole()
	sealed := record.AppendSealed(nil)
	sound := sealed[:len(sealed)-sealBytes]
	for name, bad := range map[string][]byte{
		"marked 2":      slices.Concat(sound[:3], []byte{2}, sound[4:]),
		"kept for ever": slices.Concat(sound[:40], bytes.Repeat([]byte{0x7f}, 8), sound[48:]),
		"long ago":      slices.Concat(sound[:40], bytes.Repeat([]byte{0xf0}, 8), sound[48:]),
	} {
		if got, err := DecodeSealed(resealed(bad)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a record %s is read as %+v, %v", name, got, err)
		}
	}
	for n := range sound {
		if got, err := DecodeSealed(resealed(sound[:n])); !errors.Is(err, ErrCorrupt) {
			t.Errorf("of %d bytes, %d are read as %+v, %v", len(sound), n, got, err)
		}
	}
}

// Any bytes under a right seal are an error or a record, which is stored as the same bytes.
func FuzzStored(f *testing.F) {
	f.Add(unhex(f, wholeFixed+wholeCounter))
	f.Add(append(unhex(f, wholeFixed+wholeCounter), "result"...))
	f.Fuzz(func(t *testing.T, body []byte) {
		b := resealed(body)
		got, err := DecodeSealed(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrLayout) {
				t.Errorf("got %v", err)
			}
			return
		}
		if again := got.AppendSealed(nil); !bytes.Equal(again, b) {
			t.Errorf("%x is stored anew as %x", b, again)
		}
	})
}
