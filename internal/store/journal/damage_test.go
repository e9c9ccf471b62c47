package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/dedupe"
)

// damagedOnce fails unless exactly entry 1 of three was damaged, as data, set aside and told.
func damagedOnce(t *testing.T, d *memDisk, data []byte, what string, at int) {
	t.Helper()
	d.put(nth(1), data)
	j := reopen(t, d)
	j.holds(t, 0, 2)
	kept := nth(1) + damagedSuffix
	if j.Damaged() != 1 || !bytes.Equal(d.content(kept), data) || d.content(nth(1)) != nil {
		t.Fatalf("%s %d: %d damages, there are %v", what, at, j.Damaged(), d.with(""))
	}
	if said := j.log.String(); !strings.Contains(said, "/j/"+nth(1)) || !strings.Contains(said, "/j/"+kept) {
		t.Fatalf("%s %d: it says\n%s", what, at, said)
	}
	again := reopen(t, d)
	again.holds(t, 0, 2)
	if again.Damaged() != 0 || !strings.Contains(again.log.String(), kept) {
		t.Fatalf("%s %d: at the next start %d damages, and it says\n%s", what, at, again.Damaged(), again.log)
	}
	if err := d.Remove(kept); err != nil {
		t.Fatal(err)
	}
}

// Whatever byte is wrong or missing, it is found and said, every other entry is kept,
// and the file stays for the operator as it was.
func TestEveryByteDamaged(t *testing.T) {
	d := written(t, 3)
	data := d.content(nth(1))
	for at := range data {
		for _, mask := range []byte{0x01, 0xff} {
			damaged := bytes.Clone(data)
			damaged[at] ^= mask
			damagedOnce(t, d, damaged, "byte", at)
		}
		damagedOnce(t, d, data[:at], "cut at", at)
	}
	damagedOnce(t, d, append(bytes.Clone(data), 0), "a byte more, of", len(data))
}

// An entry of a later version is neither lost nor in the way, and is said at every start.
func TestAnEntryOfALaterVersionIsLeftWhereItIs(t *testing.T) {
	d := written(t, 3)
	data := d.content(nth(2))
	data[len(magic)] = version + 1
	binary.LittleEndian.PutUint32(data[len(magic)+1:], checksum(data))
	d.put(nth(2), data)
	for range 2 {
		j := reopen(t, d)
		j.holds(t, 0, 1)
		if !bytes.Equal(d.content(nth(2)), data) || j.Damaged() != 0 || !strings.Contains(j.log.String(), "/j/"+nth(2)) || !strings.Contains(j.log.String(), "version 2") {
			t.Errorf("there are %v, and it says\n%s", d.with(""), j.log)
		}
		if number, err := j.Put(entry(3)); err != nil || number != 4 {
			t.Errorf("the next is %d, %v", number, err)
		}
		if err := j.Remove(4); err != nil {
			t.Error(err)
		}
	}
}

func TestDamagedEntriesAreBounded(t *testing.T) {
	const entries = maxDamaged + 3
	d := written(t, entries+2)
	for n := range entries {
		d.put(nth(n+2), []byte("rotten"))
	}
	for _, c := range []struct {
		found          int64
		removed, first int
	}{{entries, 3, 5}, {2, 2, 7}} { // the two were intact until then, and are older than what is kept
		j := reopen(t, d)
		kept := d.with(damagedSuffix)
		if j.Damaged() != c.found || len(kept) != maxDamaged || !slices.Contains(kept, nth(c.first)+damagedSuffix) {
			t.Errorf("%d damages, kept are %v", j.Damaged(), kept)
		}
		if n := strings.Count(j.log.String(), "the oldest is removed"); n != c.removed {
			t.Errorf("it says of %d that they are removed, want %d:\n%s", n, c.removed, j.log)
		}
		for n := range 2 {
			d.put(nth(n), []byte("rotten"))
		}
	}
}

// What cannot be set aside is not given up either: the sidecar does not start, or the
// entry stays.
func TestADamagedEntryThatCannotBeSetAside(t *testing.T) {
	d := written(t, 2)
	j := reopen(t, d)
	d.put(nth(1), []byte("rotten"))
	d.fail = failOn("rename", 2)
	if _, err := j.Get(2); err == nil || errors.Is(err, dedupe.ErrCorrupt) || j.Damaged() != 0 {
		t.Errorf("%v, %d damages", err, j.Damaged())
	}
	if _, err := tryOpen(d); err == nil || !strings.Contains(err.Error(), "the disk fails") {
		t.Errorf("got %v", err)
	}
	if string(d.content(nth(1))) != "rotten" {
		t.Error("it was changed")
	}
	reopen(t, d).holds(t, 0)
}

// An entry can rot, or be removed, while it waits. It is then given up, loudly, and no
// other.
func TestAnEntryThatCanBeReadNoLonger(t *testing.T) {
	for name, data := range map[string][]byte{"it rots": []byte("rotten"), "it is removed": nil} {
		d := written(t, 3)
		j := reopen(t, d)
		d.put(nth(1), data)
		if data == nil {
			if err := d.Remove(nth(1)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := j.Get(2); !errors.Is(err, dedupe.ErrCorrupt) || j.Damaged() != 1 {
			t.Errorf("%s: %v, %d damages", name, err, j.Damaged())
		}
		if !bytes.Equal(d.content(nth(1)+damagedSuffix), data) || !strings.Contains(j.log.String(), "the journal is damaged") {
			t.Errorf("%s: there are %v, and it says\n%s", name, d.with(""), j.log)
		}
		reopen(t, d).holds(t, 0, 2)
	}
}

// A disk that cannot be read for a moment ends nothing.
func TestAnEntryThatCannotBeReadForAMoment(t *testing.T) {
	d := written(t, 3)
	j := reopen(t, d)
	d.fail = failOn("read", 2)
	if _, err := j.Get(2); err == nil || errors.Is(err, dedupe.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if _, err := tryOpen(d); err == nil {
		t.Error("it starts without what it could not read")
	}
	if late, err := j.Get(2); err != nil || !reflect.DeepEqual(late, entry(1)) || j.Damaged() != 0 {
		t.Errorf("%+v, %v, %d damages", late, err, j.Damaged())
	}
}

// oneLife is what one process does with a journal: it opens it, keeps entries, ends one, and
// finds one that has rotted. It notes what it was told, until the disk does no more.
func oneLife(d *memDisk, must, may map[int]bool) {
	j, err := tryOpen(d)
	if err != nil {
		return
	}
	for n := 4; n < 6; n++ {
		may[n] = true
		if _, err := j.Put(entry(n)); err != nil {
			return
		}
		must[n] = true
	}
	delete(must, 0)
	if j.Remove(1) != nil {
		return
	}
	_, _ = j.Get(3) // it is set aside, or stays
}

// The promise as a whole: whatever the disk was doing when the process or the power went,
// what was kept is there, and nothing that was never put; what is damaged is kept too.
func TestACrashAfterEachCallToTheDisk(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	start := func() *memDisk {
		d := written(t, 4)
		d.put(nth(1), []byte("rotten"))
		d.put(nth(9)+temporarySuffix, []byte("of an earlier crash"))
		d.calls = nil
		return d
	}
	whole := start()
	oneLife(whole, map[int]bool{}, map[int]bool{})
	for dies := 1; dies <= len(whole.calls)+1; dies++ {
		for range 40 {
			for _, power := range []bool{false, true} {
				d := start()
				d.dies = dies
				must, may := map[int]bool{0: true, 2: true, 3: true}, map[int]bool{0: true, 2: true, 3: true}
				oneLife(d, must, may)
				before := len(d.calls)
				d.revive(random, power)
				j := reopen(t, d)
				there := map[int]bool{}
				for _, w := range j.Waiting() {
					n := slices.IndexFunc(upTo(6), func(n int) bool { return entry(n).Settlement.Key == w.Key })
					late, err := j.Get(w.Number)
					if err != nil || n < 0 || !may[n] || there[n] || !reflect.DeepEqual(late, entry(n)) {
						t.Fatalf("dead at call %d of %d: %+v, %v", dies, before, w, err)
					}
					there[n] = true
				}
				for n := range must {
					if !there[n] {
						t.Fatalf("dead at call %d (power %t): entry %d is lost, there are %v\n%s", dies, power, n, d.with(""), j.log)
					}
				}
				if string(d.content(nth(1)+damagedSuffix)) != "rotten" || len(d.with(temporarySuffix)) > 0 {
					t.Fatalf("dead at call %d: there are %v", dies, d.with(""))
				}
			}
		}
	}
}

// The same over several lives, of any length, with a disk that fails in between.
func TestNothingAcknowledgedIsEverLost(t *testing.T) {
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 0))
		d := newDisk()
		must, may := map[uint64]int{}, map[int]bool{} // acknowledged, by number; tried, or ended since
		for next, life := 0, 0; life < 5; life++ {
			j := reopen(t, d)
			there := map[uint64]bool{}
			for _, w := range j.Waiting() {
				there[w.Number] = true
				n, known := must[w.Number]
				if late, err := j.Get(w.Number); known && (err != nil || !reflect.DeepEqual(late, entry(n))) {
					t.Fatalf("seed %d: entry %d: %v", seed, n, err)
				}
				if !known && !slices.ContainsFunc(upTo(next), func(n int) bool { return may[n] && entry(n).Settlement.Key == w.Key }) {
					t.Fatalf("seed %d: %v was never there", seed, w)
				}
			}
			for number, n := range must {
				if !there[number] {
					t.Fatalf("seed %d, life %d: entry %d is lost\n%s", seed, life, n, j.log)
				}
			}
			for range random.IntN(60) {
				d.fail = nil
				if random.IntN(8) == 0 {
					d.fail = failOn([]string{"create", "write", "sync", "rename", "remove", "syncdir"}[random.IntN(6)], 1+random.IntN(2))
				}
				if random.IntN(3) > 0 {
					may[next] = true
					if number, err := j.Put(entry(next)); err == nil {
						must[number] = next
					}
					next++
					continue
				}
				for number := range must {
					delete(must, number)
					_ = j.Remove(number) // or not
					break
				}
			}
			d.revive(random, random.IntN(2) == 0)
		}
	}
}

// Whatever stands in a file, it is an entry, or set aside, and no other entry suffers.
func FuzzJournal(f *testing.F) {
	whole := written(f, 4)
	f.Add(whole.content(nth(0)))
	f.Add(whole.content(nth(3))[headSize:])
	f.Add([]byte(magic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, input []byte) {
		sealed := append([]byte(magic+"\x01crc."), input...)
		binary.LittleEndian.PutUint32(sealed[len(magic)+1:], checksum(sealed))
		for _, data := range [][]byte{input, sealed} {
			if late, err := decode(data); err == nil {
				again, err := encode(late)
				if err != nil {
					t.Fatal(err)
				}
				if back, err := decode(again); err != nil || !reflect.DeepEqual(back, late) {
					t.Fatalf("%+v\nwas written and read as\n%+v (%v)", late, back, err)
				}
			}
			d := newDisk()
			d.put(nth(0), whole.content(nth(0)))
			d.put(nth(1), data)
			d.put(nth(2), whole.content(nth(2)))
			j := reopen(t, d)
			if waiting := int64(len(j.Waiting())); waiting+j.Damaged() != 3 && !strings.Contains(j.log.String(), "later version") {
				t.Fatalf("%d wait, %d damages", waiting, j.Damaged())
			}
			for _, n := range []int{0, 2} {
				if late, err := j.Get(uint64(n + 1)); err != nil || !reflect.DeepEqual(late, entry(n)) {
					t.Fatalf("entry %d: %v", n, err)
				}
			}
		}
	})
}
