package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/dedupe"
)

// written returns a disk with a closed journal of n entries, and where each of
// them begins; the last offset is the end of the file.
func written(t testing.TB, n int) (data []byte, offsets []int64) {
	t.Helper()
	d := newDisk()
	j := reopen(t, d, 0)
	j.fill(t, 0, n)
	for _, s := range j.slots {
		offsets = append(offsets, s.offset)
	}
	offsets = append(offsets, j.end)
	closeNow(t, j.Journal)
	return d.content(path), offsets
}

// A crash leaves any part of what was being appended. It is cut off, said, and
// what stands before it is intact; the next append goes to its place.
func TestCutAtEveryLength(t *testing.T) {
	data, offsets := written(t, 5)
	for length := range len(data) + 1 {
		d := newDisk()
		d.put(path, data[:length])
		j := reopen(t, d, 0)
		whole := 0
		for whole < 5 && offsets[whole+1] <= int64(length) {
			whole++
		}
		j.holds(t, upTo(whole)...)
		clean := length == headerSize || slices.Contains(offsets, int64(length))
		if said := strings.Contains(j.log.String(), "cut off") || strings.Contains(j.log.String(), "made anew"); said == clean {
			t.Fatalf("cut at %d: it says\n%s", length, j.log)
		}
		if j.Damaged() != 0 {
			t.Fatalf("cut at %d: a crash is taken for a damage:\n%s", length, j.log)
		}
		if size := len(d.content(path)); size != int(offsets[whole]) {
			t.Fatalf("cut at %d: the file has %d bytes afterwards, want %d", length, size, offsets[whole])
		}
		j.fill(t, whole, whole+1)
		closeNow(t, j.Journal)
		reopen(t, d, 0).holds(t, upTo(whole+1)...)
	}
}

// Whatever byte is wrong, it is found and said with its place, every other
// entry is kept, and the file stays for the operator as it was.
func TestEveryByteDamaged(t *testing.T) {
	data, offsets := written(t, 5)
	for at := range data {
		for _, mask := range []byte{0x01, 0xff} {
			damaged := bytes.Clone(data)
			damaged[at] ^= mask
			d := newDisk()
			d.put(path, damaged)
			j := reopen(t, d, 0)
			var intact []int
			region := int64(0)
			for n := range 5 {
				if offsets[n] <= int64(at) && int64(at) < offsets[n+1] {
					region = offsets[n]
				} else {
					intact = append(intact, n)
				}
			}
			j.holds(t, intact...)
			names := damagedNames(d)
			if j.Damaged() != 1 || len(names) != 1 || !bytes.Equal(d.content(names[0]), damaged) {
				t.Fatalf("byte %d: %d damages, files %v", at, j.Damaged(), names)
			}
			if said := j.log.String(); !strings.Contains(said, fmt.Sprintf(`"offset":%d,`, region)) || !strings.Contains(said, names[0]) {
				t.Fatalf("byte %d, in what begins at %d: it says\n%s", at, region, said)
			}
			closeNow(t, j.Journal)
			again := reopen(t, d, 0)
			again.holds(t, intact...)
			if again.Damaged() != 0 || !strings.Contains(again.log.String(), names[0]) {
				t.Fatalf("byte %d: after the repair %d damages, and it says\n%s", at, again.Damaged(), again.log)
			}
			closeNow(t, again.Journal)
		}
	}
}

// Any number of damages of any size: no entry that was not hit is lost, and
// none appears that was not written.
func TestRandomDamages(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	data, offsets := written(t, 40)
	for range 500 {
		damaged, hit := bytes.Clone(data), map[int]bool{}
		for range 1 + random.IntN(4) {
			from := headerSize + random.IntN(len(data)-headerSize)
			to := min(from+1+random.IntN(300), len(data))
			for i := from; i < to; i++ {
				damaged[i] = byte(random.Uint32())
			}
			for n := range 40 {
				if !bytes.Equal(damaged[offsets[n]:offsets[n+1]], data[offsets[n]:offsets[n+1]]) {
					hit[n] = true
				}
			}
		}
		d := newDisk()
		d.put(path, damaged)
		j := reopen(t, d, 0)
		j.holds(t, slices.DeleteFunc(upTo(40), func(n int) bool { return hit[n] })...)
		if len(hit) > 0 && (j.Damaged() == 0 || len(damagedNames(d)) != 1) {
			t.Fatalf("%d entries hit, %d damages, %v", len(hit), j.Damaged(), damagedNames(d))
		}
		closeNow(t, j.Journal)
	}
}

// A part of the file is missing, so that the frames after it stand where those
// before them should have ended.
func TestAPartIsMissing(t *testing.T) {
	data, offsets := written(t, 6)
	for from := headerSize; from < len(data); from += 3 {
		for to := from + 1; to <= len(data); to += 7 {
			var intact []int
			for n := range 6 {
				if offsets[n+1] <= int64(from) || int64(to) <= offsets[n] {
					intact = append(intact, n)
				}
			}
			d := newDisk()
			d.put(path, append(bytes.Clone(data[:from]), data[to:]...))
			j, err := Open(path, Options{disk: d})
			if err != nil {
				t.Fatal(err)
			}
			// One more is there when the two ends make an entry together.
			if more := j.Waiting() - len(intact); more < 0 || more > 1 {
				t.Fatalf("without %d to %d %d entries wait, want %d", from, to, j.Waiting(), len(intact))
			}
			for _, n := range intact {
				if late, ok := j.Find(entry(n).Settlement.Key); !ok || !bytes.Equal(late.Settlement.Result, entry(n).Settlement.Result) {
					t.Fatalf("without %d to %d entry %d is lost", from, to, n)
				}
			}
			closeNow(t, j)
		}
	}
}

func TestAFileThatIsNoJournalIsLeftAlone(t *testing.T) {
	for name, content := range map[string]string{
		"text":        "listen: [tcp://127.0.0.1:1]\n",
		"long text":   strings.Repeat("listen: [tcp://127.0.0.1:1]\n", 100),
		"short":       "x",
		"zeros":       string(make([]byte, 5000)),
		"almost ours": "SCJOURN2" + strings.Repeat("x", 100),
	} {
		d := newDisk()
		d.put(path, []byte(content))
		if _, err := Open(path, Options{disk: d}); !errors.Is(err, errNotAJournal) {
			t.Errorf("%s: %v", name, err)
		}
		if string(d.content(path)) != content || len(d.names) != 1 {
			t.Errorf("%s: touched: %v", name, d.names)
		}
		if d.names[path].locked {
			t.Errorf("%s: still locked", name)
		}
	}
}

func TestHeaderAndFirstEntryDamaged(t *testing.T) {
	data, _ := written(t, 5)
	for i := 9; i < 60; i++ {
		data[i] = 0
	}
	d := newDisk()
	d.put(path, data)
	j := reopen(t, d, 0)
	j.holds(t)
	if names := damagedNames(d); j.Damaged() == 0 || len(names) != 1 || !bytes.Equal(d.content(names[0]), data) {
		t.Errorf("%d damages, %v", j.Damaged(), names)
	}
	j.fill(t, 0, 2)
	j.holds(t, 0, 1)
}

// A tool decides what its results are. One that knows how the journal writes
// must not be able to write into it, were its entry ever damaged.
func TestAResultCannotPassForAnEntry(t *testing.T) {
	d := newDisk()
	j := reopen(t, d, 0)
	forged := frame(newID(), encode(entry(7)))
	late := entry(0)
	late.Settlement.Result = bytes.Repeat(forged, 3)
	if err := j.Append(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	j.fill(t, 1, 2)
	closeNow(t, j.Journal)
	data := d.content(path)
	data[headerSize+5] ^= 1
	d.put(path, data)
	reopen(t, d, 0).holds(t, 1)
}

func TestAnEntryOfAnotherLayoutIsKeptAside(t *testing.T) {
	d := newDisk()
	j := reopen(t, d, 0)
	j.fill(t, 0, 1)
	body := encode(entry(1))
	body[0] = 3
	data := append(d.content(path), frame(j.id, body)...)
	closeNow(t, j.Journal)
	d.put(path, append(data, frame(j.id, encode(entry(2)))...))
	again := reopen(t, d, 0)
	again.holds(t, 0, 2)
	if !strings.Contains(again.log.String(), "layout 3") || len(damagedNames(d)) != 1 {
		t.Errorf("it says\n%s", again.log)
	}
}

func TestDamagedFilesAreBounded(t *testing.T) {
	data, _ := written(t, 2)
	data[len(data)-1] ^= 1
	d := newDisk()
	var oldest string
	for i := range maxDamagedFiles + 3 {
		d.kill()
		d.put(path, data)
		j := reopen(t, d, 0)
		names := damagedNames(d)
		if want := min(i+1, maxDamagedFiles); len(names) != want {
			t.Fatalf("%d damaged files after %d, want %d", len(names), i+1, want)
		}
		if i >= maxDamagedFiles && (slices.Contains(names, oldest) || !strings.Contains(j.log.String(), oldest)) {
			t.Errorf("the oldest, %s, is not what was removed and reported:\n%s", oldest, j.log)
		}
		oldest = names[0]
		closeNow(t, j.Journal)
	}
}

// What cannot be set aside is not repaired either.
func TestADamagedFileThatCannotBeSetAside(t *testing.T) {
	data, _ := written(t, 2)
	data[len(data)-1] ^= 1
	for _, operation := range []string{"write", "sync", "syncdir", "rename"} {
		d := newDisk()
		d.put(path, data)
		d.fail = failOn(operation, -1)
		if _, err := Open(path, Options{disk: d}); err == nil || !strings.Contains(err.Error(), "the disk fails") {
			t.Errorf("%s: %v", operation, err)
		}
		if !bytes.Equal(d.content(path), data) {
			t.Errorf("%s: the file was changed", operation)
		}
		d.fail = nil
		reopen(t, d, 0).holds(t, 0)
	}
}

// An entry can rot while it waits. It is then given up, loudly, and no other.
func TestAnEntryThatCanBeReadNoLonger(t *testing.T) {
	for name, find := range map[string]bool{"by a replay": false, "by a duplicate": true} {
		t.Run(name, func(t *testing.T) {
			d := newDisk()
			j := reopen(t, d, 0)
			j.fill(t, 0, 3)
			d.mu.Lock()
			d.names[path].data[j.slots[1].offset+30] ^= 1
			d.mu.Unlock()
			rotten := d.content(path)
			if find {
				if _, ok := j.Find(entry(1).Settlement.Key); ok {
					t.Error("found")
				}
			}
			j.holds2(t, 0, 2)
			if names := damagedNames(d); j.Damaged() != 1 || len(names) != 1 || !bytes.Equal(d.content(names[0]), rotten) {
				t.Errorf("%d damages, %v", j.Damaged(), names)
			}
			if !strings.Contains(j.log.String(), errChecksum.Error()) {
				t.Errorf("it says\n%s", j.log)
			}
		})
	}
}

// A disk that cannot be read for a moment ends nothing.
func TestAnEntryThatCannotBeReadForAMoment(t *testing.T) {
	d := newDisk()
	j := reopen(t, d, 0)
	j.fill(t, 0, 3)
	d.mu.Lock()
	d.fail = failOn("read", 2)
	d.mu.Unlock()
	if _, ok := j.Find(entry(1).Settlement.Key); ok {
		t.Error("found")
	}
	var s store
	if err := j.Replay(t.Context(), s.settle); err == nil || len(s.taken) != 2 {
		t.Errorf("%d taken, %v", len(s.taken), err)
	}
	if err := j.Replay(t.Context(), s.settle); err != nil || len(s.taken) != 3 || j.Waiting() != 0 {
		t.Errorf("%d taken, %d wait, %v", len(s.taken), j.Waiting(), err)
	}
	if j.Damaged() != 0 || len(damagedNames(d)) != 0 {
		t.Errorf("%d damages, %v", j.Damaged(), damagedNames(d))
	}
}

// A rotten entry is not given up before the file is set aside.
func TestARottenEntryThatCannotBeSetAside(t *testing.T) {
	d := newDisk()
	j := reopen(t, d, 0)
	j.fill(t, 0, 1)
	d.mu.Lock()
	d.names[path].data[j.slots[0].offset+30] ^= 1
	d.fail = failOn("open", 1)
	d.mu.Unlock()
	rotten := d.content(path)
	var s store
	if err := j.Replay(t.Context(), s.settle); err == nil || j.Waiting() != 1 {
		t.Errorf("%d wait, %v", j.Waiting(), err)
	}
	if !bytes.Equal(d.content(path), rotten) {
		t.Error("the file was cut")
	}
	if err := j.Replay(t.Context(), s.settle); err != nil || j.Waiting() != 0 || j.Damaged() != 1 {
		t.Errorf("%d wait, %d damages, %v", j.Waiting(), j.Damaged(), err)
	}
	if names := damagedNames(d); len(names) != 1 || !bytes.Equal(d.content(names[0]), rotten) {
		t.Errorf("%v", names)
	}
}

// holds2 is holds, where some entry may end as it is read.
func (j opened) holds2(t *testing.T, numbers ...int) {
	t.Helper()
	j.entries(t)
	j.holds(t, numbers...)
}

func FuzzJournal(f *testing.F) {
	data, offsets := written(f, 6)
	f.Add(data, false)
	f.Add([]byte{}, false)
	f.Add([]byte(magic), false)
	f.Add(encode(entry(1)), false)
	f.Add(encode(entry(3)), false)
	f.Add([]byte{30, 0, 1, 0xff}, true)
	f.Add([]byte{0, 0, 20, 0xff, 200, 0, 1, 1}, true)
	f.Fuzz(func(t *testing.T, input []byte, patch bool) {
		if late, err := decode(input); err == nil {
			again, err := decode(encode(late))
			if err != nil || !reflect.DeepEqual(again, late) {
				t.Fatalf("%+v\nwas written and read as\n%+v (%v)", late, again, err)
			}
		}
		d := newDisk()
		file := input
		var intact []int
		if patch {
			file, intact = patched(data, offsets, input)
		}
		d.put(path, file)
		j, err := Open(path, Options{disk: d})
		if err != nil {
			if !errors.Is(err, errNotAJournal) || !bytes.Equal(d.content(path), file) {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		first := opened{Journal: j}
		if patch && !bytes.Equal(file, data) && len(damagedNames(d)) == 0 {
			t.Fatal("a damage went unnoticed")
		}
		all := first.entries(t)
		for _, n := range intact {
			if !slices.ContainsFunc(all, func(l dedupe.Late) bool { return l.Settlement.Key == entry(n).Settlement.Key }) {
				t.Fatalf("entry %d was not hit and is lost", n)
			}
		}
		if err := j.Append(t.Context(), entry(50)); err != nil {
			t.Fatal(err)
		}
		closeNow(t, j)
		again := reopen(t, d, 0)
		if again.Waiting() != len(all)+1 || again.Damaged() != 0 {
			t.Fatalf("%d entries at the second start (%d damages), want %d", again.Waiting(), again.Damaged(), len(all)+1)
		}
	})
}

// patched overwrites parts of a journal: input is a list of offset (2 bytes),
// length, and what to flip. It returns the entries that were not touched; none
// are promised when the header and the first entry are both hit.
func patched(data []byte, offsets []int64, input []byte) (file []byte, intact []int) {
	file = bytes.Clone(data)
	for ; len(input) >= 4; input = input[4:] {
		at := (int(input[0]) | int(input[1])<<8) % len(data)
		for i := at; i < min(at+int(input[2]), len(data)); i++ {
			file[i] ^= input[3]
		}
	}
	same := func(from, to int64) bool { return bytes.Equal(file[from:to], data[from:to]) }
	if !same(0, offsets[0]) && !same(offsets[0], offsets[0]+int64(headSize)) {
		return file, nil
	}
	for n := range len(offsets) - 1 {
		if same(offsets[n], offsets[n+1]) {
			intact = append(intact, n)
		}
	}
	return file, intact
}
