package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
)

const path = "sidecall.journal"

// entry is the n-th of the entries that the tests use; every seventh carries a
// kept output.
func entry(n int) dedupe.Late {
	late := dedupe.Late{
		Settlement: dedupe.Settlement{
			Key:   dedupe.Key{Tenant: "t", Conversation: fmt.Sprint("c", n), Turn: "1", ID: "call_0"},
			Owner: fmt.Sprint("here.", n), Epoch: int64(n + 1), State: dedupe.Done, Attempts: n % 4,
			Result: bytes.Repeat([]byte{byte(n)}, 10+n%50), Retention: 24 * time.Hour,
		},
		Claim: dedupe.Record{
			State: dedupe.Claimed, Owner: fmt.Sprint("here.", n), Epoch: int64(n + 1),
			Tool: "refund", Effect: tool.NonIdempotent, Fingerprint: [32]byte{byte(n), 1}, StartedAt: time.UnixMilli(1500).UTC(),
		},
		EndedAt: time.Unix(2, 0).UTC(),
	}
	if n%7 == 3 {
		late.Settlement.Output = &dedupe.Output{Ref: fmt.Sprint("out-", n), Data: []byte("the whole output"), Complete: true, TTL: time.Hour}
	}
	return late
}

type opened struct {
	*Journal
	log *bytes.Buffer
}

// reopen opens the journal on a disk; it is closed with the test.
func reopen(t testing.TB, d disk, maxBytes int64) opened {
	t.Helper()
	var log bytes.Buffer
	j, err := Open(path, Options{MaxBytes: maxBytes, disk: d, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeNow(t, j) })
	return opened{j, &log}
}

func closeNow(t testing.TB, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

func (j opened) fill(t testing.TB, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		if err := j.Append(context.Background(), entry(n)); err != nil {
			t.Fatal(err)
		}
	}
}

// waiting returns what a replay hands out, by sequence, without ending any.
func (j opened) entries(t testing.TB) []dedupe.Late {
	t.Helper()
	var all []dedupe.Late
	j.mu.Lock()
	slots := append([]*slot(nil), j.slots...)
	j.mu.Unlock()
	for _, s := range slots {
		if late, ok, _ := j.read(s.seq); ok {
			late.Seq = 0
			all = append(all, late)
		}
	}
	return all
}

// holds fails unless exactly the entries with the given numbers wait, in order.
func (j opened) holds(t testing.TB, numbers ...int) {
	t.Helper()
	got := j.entries(t)
	if len(got) != len(numbers) || j.Waiting() != len(numbers) {
		t.Fatalf("%d entries (%d waiting), want %d", len(got), j.Waiting(), len(numbers))
	}
	for i, n := range numbers {
		if want := entry(n); !reflect.DeepEqual(got[i], want) {
			t.Fatalf("entry %d is\n%+v, want\n%+v", i, got[i], want)
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
	j := reopen(t, d, 0)
	if j.log.Len() > 0 {
		t.Errorf("of a new journal it says\n%s", j.log)
	}
	j.fill(t, 0, 20)
	j.holds(t, upTo(20)...)
	d.kill()
	again := reopen(t, d, 0)
	again.holds(t, upTo(20)...)
	late, ok := again.Find(entry(3).Settlement.Key)
	if late.Seq = 0; !ok || !reflect.DeepEqual(late, entry(3)) {
		t.Errorf("found %+v, %t", late, ok)
	}
	if _, ok := again.Find(entry(99).Settlement.Key); ok {
		t.Error("found what was never appended")
	}
	if again.Damaged() != 0 || len(damagedNames(d)) != 0 || strings.Contains(again.log.String(), "damage") {
		t.Errorf("damaged, it says:\n%s", again.log)
	}
}

func TestTheRecordThatAnEntryBecomes(t *testing.T) {
	r := entry(3).Record()
	if r.State != dedupe.Done || r.Owner != "here.3" || r.Epoch != 4 || r.Tool != "refund" || r.Attempts != 3 ||
		!bytes.Equal(r.Result, entry(3).Settlement.Result) || !r.FinishedAt.Equal(time.Unix(2, 0)) {
		t.Errorf("%+v", r)
	}
}

func TestAppendIsSyncedBeforeItReturns(t *testing.T) {
	d := newDisk()
	j := reopen(t, d, 0)
	before := d.syncs
	j.fill(t, 0, 1)
	if d.syncs != before+1 {
		t.Errorf("%d syncs", d.syncs-before)
	}
	if got := d.names[path]; !bytes.Equal(got.data, got.synced) {
		t.Error("not all of it is synced")
	}
}

// Appends that arrive while a sync is under way share the next one.
func TestAppendsShareASync(t *testing.T) {
	d := newDisk()
	j := reopen(t, d, 0)
	begun, goOn := make(chan struct{}, 100), make(chan struct{})
	d.syncing = func() { begun <- struct{}{}; <-goOn }
	before := d.syncs
	var all sync.WaitGroup
	appendOne := func(n int) {
		all.Go(func() {
			if err := j.Append(t.Context(), entry(n)); err != nil {
				t.Error(err)
			}
		})
	}
	appendOne(0)
	<-begun
	for n := 1; n <= 50; n++ {
		appendOne(n)
	}
	for waits := 0; waits < 50; {
		j.mu.Lock()
		if j.queue != nil {
			waits = len(j.queue.frames)
		}
		j.mu.Unlock()
	}
	close(goOn)
	all.Wait()
	if got := d.syncs - before; got != 2 {
		t.Errorf("%d syncs for 51 appends, want 2", got)
	}
	if j.Waiting() != 51 {
		t.Errorf("%d wait", j.Waiting())
	}
}

func TestAppendGivesUpOnADiskThatHangs(t *testing.T) {
	d := newDisk()
	j := reopen(t, d, 0)
	hang := make(chan struct{})
	d.syncing = func() { <-hang }
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := j.Append(ctx, entry(0)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	close(hang)
}

func TestInvalidEntriesAreRefused(t *testing.T) {
	j := reopen(t, newDisk(), 0)
	for name, spoil := range map[string]func(*dedupe.Late){
		"no id":     func(l *dedupe.Late) { l.Settlement.Key.ID = "" },
		"no epoch":  func(l *dedupe.Late) { l.Settlement.Epoch, l.Settlement.State = 0, dedupe.NotRun },
		"claimed":   func(l *dedupe.Late) { l.Settlement.State = dedupe.Claimed },
		"long name": func(l *dedupe.Late) { l.Claim.Tool = strings.Repeat("x", dedupe.MaxNameBytes+1) },
	} {
		late := entry(0)
		spoil(&late)
		if err := j.Append(t.Context(), late); !errors.Is(err, dedupe.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	j.holds(t)
}

func TestCloseKeepsWhatWasAccepted(t *testing.T) {
	d := newDisk()
	j := reopen(t, d, 0)
	j.fill(t, 0, 3)
	closeNow(t, j.Journal)
	closeNow(t, j.Journal)
	if err := j.Append(t.Context(), entry(3)); !errors.Is(err, dedupe.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, ok := j.Find(entry(0).Settlement.Key); ok {
		t.Error("found in a closed journal")
	}
	reopen(t, d, 0).holds(t, 0, 1, 2)
}

func TestTheFileOnARealDisk(t *testing.T) {
	name := filepath.Join(t.TempDir(), "sidecall.journal")
	open := func() (*Journal, error) { return Open(name, Options{}) }
	j, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: results may be secret", info.Mode(), err)
	}
	if _, err := open(); !errors.Is(err, errLocked) || !strings.Contains(err.Error(), name) {
		t.Errorf("a second process: %v", err)
	}
	opened{Journal: j}.fill(t, 0, 10)
	closeNow(t, j)
	if j, err = open(); err != nil {
		t.Fatal(err)
	}
	opened{Journal: j}.holds(t, upTo(10)...)
	// Written anew, it is still locked.
	if err := j.compact(); err != nil {
		t.Fatal(err)
	}
	if _, err := open(); !errors.Is(err, errLocked) {
		t.Errorf("a second process, after a compaction: %v", err)
	}
	closeNow(t, j)
	if _, err := Open(t.TempDir(), Options{}); err == nil {
		t.Error("a directory was opened as a journal")
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none", "j"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
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
		if validate(&late) != nil {
			continue
		}
		back, err := decode(encode(late))
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
