//go:build prove

package journal

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/journal"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/prove/proof"
)

// entries is how many settlements wait in the journal that is damaged.
const entries = 60

func entry(n int) dedupe.Late {
	late := dedupe.Late{
		Settlement: dedupe.Settlement{
			Key: tool.CallID{Conversation: fmt.Sprint("c", n), ID: "a"}, Owner: fmt.Sprint("o", n), Epoch: 1,
			State: dedupe.Done, Result: bytes.Repeat([]byte{byte(n)}, n*17%900), Retention: time.Hour,
			Claim: &dedupe.Origin{Record: dedupe.Record{
				State: dedupe.Claimed, Owner: fmt.Sprint("o", n), Epoch: 1, Tool: "act", Effect: tool.NonIdempotent,
			}},
		},
		EndedAt: time.Unix(1, 0).UTC(),
	}
	if len(late.Settlement.Result) == 0 {
		late.Settlement.Result = []byte("none")
	}
	return late
}

// intact returns the files of a journal, in the order of its entries.
func intact(t *testing.T) (files [][]byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "j")
	j, err := journal.Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for n := range entries {
		if _, err := j.Put(entry(n)); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(path, fileOf(n)))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, data)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return files
}

// fileOf is the name of the n-th entry.
func fileOf(n int) string { return fmt.Sprintf("%016x", n+1) }

// harm is one random damage of the n-th of the files: what it holds afterwards.
func harm(random *rand.Rand, files [][]byte, n int) (kind string, damaged []byte) {
	data := files[n]
	from := random.IntN(len(data))
	if random.IntN(10) == 0 {
		from = random.IntN(16) // the head
	}
	to := min(from+1+random.IntN(1+random.IntN(len(data))), len(data))
	damaged = bytes.Clone(data)
	switch random.IntN(7) {
	case 0:
		damaged[from] ^= 1 << random.IntN(8)
		return "a bit flipped", damaged
	case 1:
		clear(damaged[from:to])
		return "zeroed", damaged
	case 2:
		for i := from; i < to; i++ {
			damaged[i] = byte(random.Uint32())
		}
		return "overwritten", damaged
	case 3:
		return "cut out", slices.Delete(damaged, from, to)
	case 4:
		// A part of another entry, where it does not belong.
		copy(damaged[from:to], files[random.IntN(entries)])
		return "mixed up", damaged
	case 5:
		return "longer", append(damaged, data[from:to]...)
	default:
		return "cut off", damaged[:from]
	}
}

// Whatever is done to the files of some entries, every other entry is handed out as it
// was written, nothing else is, each damage is reported, and the file is kept as it was
// found.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	files := intact(t)
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(5, 5))
	y := newTally()
	for y.counts["rounds"] < proof.Runs(400, 10_000) {
		hit := map[int][]byte{}
		for range 1 + random.IntN(5) {
			n := random.IntN(entries)
			kind, damaged := harm(random, files, n)
			if !bytes.Equal(damaged, files[n]) {
				hit[n] = damaged
				y.add(kind, 1)
			}
		}
		if len(hit) == 0 {
			continue // nothing is wrong
		}
		y.add("rounds", 1)
		examine(t, y, filepath.Join(dir, "j"), files, hit)
	}
	proof.Report(t, proof.Row{
		Fault: "journal damaged", Runs: y.counts["rounds"], Violations: y.violations,
		Figure: fmt.Sprintf("%d entries waited each time: %d handed out as written, %d hit, reported and kept aside", entries, y.counts["intact"], y.counts["hit"]),
	})
}

// examine opens a damaged journal and judges what comes of it.
func examine(t *testing.T, y *tally, path string, files [][]byte, hit map[int][]byte) {
	t.Helper()
	defer func() {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	for n, data := range files {
		if damaged, isHit := hit[n]; isHit {
			data = damaged
		}
		if err := os.WriteFile(filepath.Join(path, fileOf(n)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	j, err := journal.Open(path, slog.New(slog.NewJSONHandler(&log, nil)))
	if err != nil {
		y.broken(t, "refused: %v", err)
		return
	}
	compare(t, y, handedOut(t, j), hit)
	reported(t, y, path, hit, j.Damaged(), log.String())
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// handedOut is what waits in a journal, by its conversations.
func handedOut(t *testing.T, j *journal.Journal) map[string][]dedupe.Late {
	t.Helper()
	byCall := map[string][]dedupe.Late{}
	for _, w := range j.Waiting() {
		late, err := j.Get(w.Number)
		if err != nil {
			t.Fatal(err)
		}
		c := late.Settlement.Key.Conversation
		byCall[c] = append(byCall[c], late)
	}
	return byCall
}

func compare(t *testing.T, y *tally, got map[string][]dedupe.Late, hit map[int][]byte) {
	t.Helper()
	for n := range entries {
		want := entry(n)
		found := got[want.Settlement.Key.Conversation]
		delete(got, want.Settlement.Key.Conversation)
		switch _, wasHit := hit[n]; {
		case wasHit && len(found) > 0:
			y.broken(t, "entry %d was hit and is handed out as %+v", n, found)
		case wasHit:
			y.add("hit", 1)
		case len(found) != 1 || !reflect.DeepEqual(found[0], want):
			y.broken(t, "entry %d was not hit and is %+v", n, found)
		default:
			y.add("intact", 1)
		}
	}
	for c := range got {
		y.broken(t, "%s was never written", c)
	}
}

// reported fails unless the damages were said and kept; of many the last.
func reported(t *testing.T, y *tally, path string, hit map[int][]byte, found int64, log string) {
	t.Helper()
	if int(found) != len(hit) {
		y.broken(t, "%d damages of %d are counted", found, len(hit))
	}
	for n, damaged := range hit {
		kept := filepath.Join(path, fileOf(n)+".damaged")
		if now, err := os.ReadFile(kept); err != nil || !bytes.Equal(now, damaged) || !strings.Contains(log, kept) {
			y.broken(t, "entry %d was not kept as it was found (%v), and it says\n%s", n, err, log)
		}
	}
}
