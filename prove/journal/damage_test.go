//go:build prove

package journal

import (
	"bytes"
	"context"
	"errors"
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
	"github.com/sidecall/sidecall/dedupe/journal"
	"github.com/sidecall/sidecall/prove/proof"
	"github.com/sidecall/sidecall/tool"
)

// entries is how many settlements wait in the journal that is damaged.
const entries = 60

func entry(n int) dedupe.Late {
	late := dedupe.Late{
		Settlement: dedupe.Settlement{
			Key: dedupe.Key{Conversation: fmt.Sprint("c", n), ID: "a"}, Owner: fmt.Sprint("o", n), Epoch: 1,
			State: dedupe.Done, Result: bytes.Repeat([]byte{byte(n)}, n*17%900), Retention: time.Hour,
		},
		Claim: dedupe.Record{
			State: dedupe.Claimed, Owner: fmt.Sprint("o", n), Epoch: 1, Tool: "act", Effect: tool.NonIdempotent,
		},
		EndedAt: time.Unix(1, 0).UTC(),
	}
	if len(late.Settlement.Result) == 0 {
		late.Settlement.Result = []byte("none")
	}
	return late
}

// intact returns the bytes of a journal, and where each entry ends in it.
func intact(t *testing.T) (data []byte, ends []int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "j")
	j, err := journal.Open(path, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ends = []int{20} // the header
	for n := range entries {
		if err := j.Append(t.Context(), entry(n)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, int(info.Size()))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if data, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return data, ends
}

// harm is one random damage: the file afterwards, and the part [from, to) of
// the original that it hit.
func harm(random *rand.Rand, data []byte) (kind string, damaged []byte, from, to int) {
	from = random.IntN(len(data))
	if random.IntN(10) == 0 {
		from = random.IntN(60) // the header and the first entry
	}
	to = min(from+1+random.IntN(1+random.IntN(3000)), len(data))
	damaged = bytes.Clone(data)
	switch random.IntN(6) {
	case 0:
		to = from + 1
		damaged[from] ^= 1 << random.IntN(8)
		return "a bit flipped", damaged, from, to
	case 1:
		clear(damaged[from:to])
		return "zeroed", damaged, from, to
	case 2:
		for i := from; i < to; i++ {
			damaged[i] = byte(random.Uint32())
		}
		return "overwritten", damaged, from, to
	case 3:
		return "cut out", slices.Delete(damaged, from, to), from, to
	case 4:
		// Another part of the journal, where it does not belong: whole entries
		// may be in it, which are then handed out twice.
		other := random.IntN(len(data) - (to - from))
		copy(damaged[from:to], data[other:])
		return "mixed up", damaged, from, to
	default:
		return "cut off", damaged[:from], from, len(data)
	}
}

// Whatever is done to the file, every entry that it did not hit is handed out
// as it was written, nothing else is, the damage is reported, and the file is
// kept as it was found. One damage takes them all: the file's header together
// with the head of its first entry, which alone name the file.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	data, ends := intact(t)
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(5, 5))
	y := newTally()
	for y.counts["rounds"] < proof.Runs(400, 10_000) {
		kind, damaged, from, to := harm(random, data)
		if bytes.Equal(damaged, data) || kind[:3] == "cut" && slices.Contains(ends, from) && slices.Contains(ends, to) {
			continue // nothing is wrong, or whole entries are gone: nobody can see that
		}
		y.add("rounds", 1)
		y.add(kind, 1)
		var hit []int
		for n := range entries {
			if from < ends[n+1] && ends[n] < to {
				hit = append(hit, n)
			}
		}
		// What is cut out of the header moves the first entry from its place.
		unnamed := from < ends[0] && (ends[0] < to || kind == "cut out")
		examine(t, y, dir, kind, damaged, unnamed, hit)
	}
	proof.Report(t, proof.Row{
		Fault: "journal damaged", Runs: y.counts["rounds"], Violations: y.violations,
		Figure: fmt.Sprintf("%d entries waited each time: %d handed out as written, %d hit, %d lost with the name of the file; %d times torn, %d times no journal any more, else repaired and kept aside",
			entries, y.counts["intact"], y.counts["hit"], y.counts["unnamed"], y.counts["torn"], y.counts["refused"]),
	})
}

// examine opens a damaged journal and judges what comes of it.
func examine(t *testing.T, y *tally, dir, kind string, damaged []byte, unnamed bool, hit []int) {
	t.Helper()
	path := filepath.Join(dir, "j")
	defer clearAway(t, path)
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	j, err := journal.Open(path, journal.Options{Log: slog.New(slog.NewJSONHandler(&log, nil))})
	if err != nil {
		// It could be anybody's file.
		now, readErr := os.ReadFile(path)
		if !unnamed && len(damaged) > 20 || readErr != nil || !bytes.Equal(now, damaged) {
			y.broken(t, "%s: refused: %v", kind, err)
		}
		y.add("refused", 1)
		return
	}
	lost := unnamed && j.Waiting() == 0 // nothing can be told apart then
	compare(t, y, kind, handedOut(t, j), hit, lost)
	reported(t, y, kind, path, damaged, j.Damaged(), log.String())
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// clearAway removes a journal and what lies beside it.
func clearAway(t *testing.T, path string) {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

func handedOut(t *testing.T, j *journal.Journal) map[string][]dedupe.Late {
	t.Helper()
	got := make(chan dedupe.Late, 2*entries)
	if err := j.Replay(t.Context(), func(_ context.Context, late dedupe.Late) error {
		select {
		case got <- late:
			return nil
		default:
			return errors.New("more than can be")
		}
	}); err != nil {
		t.Fatal(err)
	}
	close(got)
	byCall := map[string][]dedupe.Late{}
	for late := range got {
		late.Seq = 0
		c := late.Settlement.Key.Conversation
		byCall[c] = append(byCall[c], late)
	}
	return byCall
}

func compare(t *testing.T, y *tally, kind string, got map[string][]dedupe.Late, hit []int, lost bool) {
	t.Helper()
	for n := range entries {
		want := entry(n)
		found := got[want.Settlement.Key.Conversation]
		delete(got, want.Settlement.Key.Conversation)
		switch wasHit := slices.Contains(hit, n); {
		case wasHit:
			y.add("hit", 1)
		case lost:
			y.add("unnamed", 1)
		case len(found) == 0:
			y.broken(t, "%s: entry %d was not hit and is lost (hit: %v)", kind, n, hit)
		default:
			y.add("intact", 1)
		}
		for _, late := range found {
			if !reflect.DeepEqual(late, want) {
				y.broken(t, "%s: entry %d is %+v", kind, n, late)
			}
		}
	}
	for c := range got {
		y.broken(t, "%s: %s was never written", kind, c)
	}
}

// reported fails unless the damage was said and kept.
func reported(t *testing.T, y *tally, kind, path string, damaged []byte, found int64, log string) {
	t.Helper()
	kept, err := filepath.Glob(path + ".damaged-*")
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		y.add("torn", 1)
		if kind != "cut off" && kind != "cut out" || len(kept) != 0 || !strings.Contains(log, "cut off") && !strings.Contains(log, "made anew") {
			y.broken(t, "%s: it went unnoticed:\n%s", kind, log)
		}
		return
	}
	if len(kept) != 1 || !strings.Contains(log, kept[0]) || !strings.Contains(log, `"offset":`) {
		y.broken(t, "%s: %v are kept, and it says\n%s", kind, kept, log)
		return
	}
	if now, err := os.ReadFile(kept[0]); err != nil || !bytes.Equal(now, damaged) {
		y.broken(t, "%s: it was not kept as it was found (%v)", kind, err)
	}
}
