package journal

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

var update = flag.Bool("update", false, "write testdata anew")

// entry is the n-th of the entries that the tests use; every seventh carries a
// kept output.
func entry(n int) dedupe.Late {
	late := dedupe.Late{
		Settlement: dedupe.Settlement{
			Key:   tool.CallID{Tenant: "t", Conversation: fmt.Sprint("c", n), Turn: "1", ID: "call_0"},
			Owner: fmt.Sprint("here.", n), Epoch: int64(n + 1), State: dedupe.Done, Attempts: n % 4,
			Result: bytes.Repeat([]byte{byte(n)}, 10+n%50), Retention: 24 * time.Hour,
			Claim: &dedupe.Origin{
				Record: dedupe.Record{
					State: dedupe.Claimed, Owner: fmt.Sprint("here.", n), Epoch: int64(n + 1), Counter: "prompt",
					Tool: "refund", Effect: tool.NonIdempotent, Fingerprint: [32]byte{byte(n), 1}, StartedAt: time.UnixMilli(1500).UTC(),
				},
				EffectKey: dedupe.EffectKey{Print: [32]byte{byte(n)}, Window: time.Hour},
			},
		},
		EndedAt: time.Unix(2, 0).UTC(),
	}
	if n%7 == 3 {
		late.Settlement.Output = &dedupe.Output{Ref: fmt.Sprint("out-", n), Data: []byte("the whole output"), Complete: true, TTL: time.Hour}
	}
	return late
}

// nth is the name of the n-th entry of a new journal.
func nth(n int) string { return nameOf(uint64(n + 1)) }

type opened struct {
	*Journal
	log *bytes.Buffer
}

func tryOpen(d disk) (opened, error) {
	var log bytes.Buffer
	j, err := open("/j", d, slog.New(slog.NewJSONHandler(&log, nil)))
	return opened{j, &log}, err
}

// reopen opens the journal on a disk.
func reopen(t testing.TB, d disk) opened {
	t.Helper()
	j, err := tryOpen(d)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (j opened) fill(t testing.TB, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		if _, err := j.Put(entry(n)); err != nil {
			t.Fatal(err)
		}
	}
}

// written returns a disk with n entries.
func written(t testing.TB, n int) *memDisk {
	t.Helper()
	d := newDisk()
	reopen(t, d).fill(t, 0, n)
	return d
}

// holds fails unless exactly the entries with the given numbers waited when it was
// opened, in order, and can be read.
func (j opened) holds(t testing.TB, numbers ...int) {
	t.Helper()
	waiting := j.Waiting()
	if len(waiting) != len(numbers) {
		t.Fatalf("%d entries, want %d\n%s", len(waiting), len(numbers), j.log)
	}
	for i, n := range numbers {
		got, err := j.Get(waiting[i].Number)
		if want := entry(n); err != nil || !reflect.DeepEqual(got, want) || waiting[i].Key != want.Settlement.Key || waiting[i].Bytes != want.Bytes() {
			t.Fatalf("entry %d is %+v\n%+v (%v), want\n%+v", i, waiting[i], got, err, want)
		}
	}
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func TestEntriesSurviveARestart(t *testing.T) {
	d := newDisk()
	j := reopen(t, d)
	if j.log.Len() > 0 {
		t.Errorf("of a new journal it says\n%s", j.log)
	}
	j.fill(t, 0, 20)
	again := reopen(t, d)
	again.holds(t, upTo(20)...)
	if again.Damaged() != 0 || strings.Contains(again.log.String(), "damage") || !strings.Contains(again.log.String(), `"waiting":20`) {
		t.Errorf("it says:\n%s", again.log)
	}
	if number, err := again.Put(entry(20)); err != nil || number != 21 {
		t.Errorf("the next number is %d, %v", number, err)
	}
	if err := errors.Join(again.Remove(3), again.Remove(3)); err != nil {
		t.Error(err)
	}
	reopen(t, d).holds(t, slices.Delete(upTo(21), 2, 3)...)
}

func TestInvalidEntriesAreRefused(t *testing.T) {
	d := newDisk()
	j := reopen(t, d)
	for name, spoil := range map[string]func(*dedupe.Late){
		"no id":         func(l *dedupe.Late) { l.Settlement.Key.ID = "" },
		"no epoch":      func(l *dedupe.Late) { l.Settlement.Epoch, l.Settlement.State = 0, dedupe.NotRun },
		"claimed":       func(l *dedupe.Late) { l.Settlement.State = dedupe.Claimed },
		"another claim": func(l *dedupe.Late) { l.Settlement.Claim.Record.Owner = "another" },
	} {
		late := entry(0)
		spoil(&late)
		if _, err := j.Put(late); !errors.Is(err, dedupe.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	reopen(t, d).holds(t)
}

// What no claim has settled is no entry, whatever its checksum.
func TestAnEntryWithoutAClaim(t *testing.T) {
	late := entry(0)
	late.Settlement.Claim = nil
	data, err := encode(late)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decode(data); !errors.Is(err, dedupe.ErrCorrupt) {
		t.Errorf("read as %+v, %v", got, err)
	}
}

func TestAJournalOnTheMachine(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	path := filepath.Join(t.TempDir(), "sidecall.journal")
	j, err := Open(path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	opened{Journal: j}.fill(t, 0, 10)
	for name, want := range map[string]os.FileMode{"": os.ModeDir | 0o700, lockName: 0o600, nth(9): 0o600} {
		if info, err := os.Stat(filepath.Join(path, name)); err != nil || info.Mode() != want {
			t.Errorf("%q: %v, %v: results may be secret", name, info.Mode(), err)
		}
	}
	if _, err := Open(path, quiet); !errors.Is(err, errLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("a second process: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if j, err = Open(path, quiet); err != nil {
		t.Fatal(err)
	}
	opened{Journal: j, log: &bytes.Buffer{}}.holds(t, upTo(10)...)
	// Nothing is acknowledged when its name cannot be synced.
	d, _ := j.disk.(directory)
	if err := d.self.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Put(entry(10)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("put without a sync of the directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(path, nth(10))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("and it is there: %v", err)
	}
	if err := j.Close(); !errors.Is(err, os.ErrClosed) {
		t.Fatal(err)
	}
	if _, err := j.Get(1); err == nil || errors.Is(err, dedupe.ErrCorrupt) {
		t.Errorf("read from a closed journal: %v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none", "j"), quiet); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

func TestWhatIsNoJournalIsLeftAlone(t *testing.T) {
	for name, files := range map[string][]string{
		"a file":                         {},
		"a directory of others":          {"notes.txt"},
		"entries and something else":     {nth(0), "notes.txt"},
		"a name that is almost an entry": {"1"},
		"a lock and something else":      {lockName, nth(0) + ".bak"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "j")
			if len(files) == 0 {
				files = []string{"j"}
				path = filepath.Join(path, "j")
			}
			dir := filepath.Join(filepath.Dir(path), "j")
			if err := os.Mkdir(dir, 0o755); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			} else if err != nil {
				dir = filepath.Dir(path)
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, file := range files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte("milk"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := Open(path, slog.New(slog.DiscardHandler)); !errors.Is(err, errNotAJournal) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v", err)
			}
			found, err := os.ReadDir(dir)
			if err != nil || len(found) != len(files) {
				t.Errorf("%v, %v", found, err)
			}
			for _, file := range files {
				if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(text) != "milk" {
					t.Errorf("%s: %q, %v", file, text, err)
				}
			}
		})
	}
}

// A disk that fails, or is full, leaves nothing of what was not kept.
func TestADiskThatFails(t *testing.T) {
	for _, operation := range []string{"create", "write", "sync", "rename", "syncdir"} {
		d := written(t, 2)
		j := reopen(t, d)
		d.fail = failOn(operation, 1)
		if _, err := j.Put(entry(99)); err == nil || errors.Is(err, dedupe.ErrInvalid) {
			t.Fatalf("%s: %v", operation, err)
		}
		if names := d.with(""); len(names) != 2 {
			t.Errorf("%s: there are %v", operation, names)
		}
		j.fill(t, 2, 4)
		reopen(t, d).holds(t, upTo(4)...)
	}
}

func TestAFullDisk(t *testing.T) {
	d := written(t, 3)
	j := reopen(t, d)
	d.space = 50
	for range 3 {
		if _, err := j.Put(entry(3)); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("got %v", err)
		}
	}
	d.space = -1
	j.fill(t, 3, 5)
	again := reopen(t, d)
	again.holds(t, upTo(5)...)
	if again.Damaged() != 0 {
		t.Errorf("the full disk left damage:\n%s", again.log)
	}
}

// The names of fields are in the files: one that is called otherwise would be read as
// empty, and wants another version.
func TestAnEntryOfThisVersionIsRead(t *testing.T) {
	const golden = "testdata/entry"
	if *update {
		data, err := encode(entry(3))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if late, err := decode(data); err != nil || !reflect.DeepEqual(late, entry(3)) {
		t.Errorf("%+v, %v\nwant %+v: give entries another version, and run this with -update", late, err, entry(3))
	}
}

// A field that a settlement gains is kept, or the settlement is refused: an entry that
// lacks it would be replayed without it.
func TestNoFieldOfASettlementIsLost(t *testing.T) {
	kind := reflect.TypeFor[dedupe.Settlement]()
	for i := range kind.NumField() {
		late := entry(1)
		field := reflect.ValueOf(&late.Settlement).Elem().Field(i)
		if field.IsZero() {
			field.Set(filled(t, field.Type()))
		}
		data, err := encode(late)
		if err != nil {
			continue
		}
		back, err := decode(data)
		if err != nil || !reflect.DeepEqual(back.Settlement, late.Settlement) {
			t.Errorf("%s: %+v is kept as %+v, %v", kind.Field(i).Name, late.Settlement, back.Settlement, err)
		}
	}
}

// filled returns a value that is not the zero value of its type.
func filled(t *testing.T, of reflect.Type) reflect.Value {
	t.Helper()
	v := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Struct:
		for i := range of.NumField() {
			v.Field(i).Set(filled(t, of.Field(i).Type))
		}
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).Set(filled(t, of.Elem()))
		}
	case reflect.Pointer:
		v.Set(reflect.New(of.Elem()))
		v.Elem().Set(filled(t, of.Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(of, 1, 1))
		v.Index(0).Set(filled(t, of.Elem()))
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(time.Second))
	case reflect.String:
		v.SetString("x")
	default:
		t.Fatalf("no value of %v is known", of)
	}
	return v
}
