package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
)

// sizes counts what is in the file.
func sizes(t *testing.T, s *Store) (records, results, claims, expiry, outputs int, outputBytes int64) {
	t.Helper()
	if _, err := s.view(func(t *txn) (err error) {
		records, results, claims = t.records.Stats().KeyN, t.results.Stats().KeyN, t.claims.Stats().KeyN
		expiry, outputs = t.expiry.Stats().KeyN, t.outputExpiry.Stats().KeyN
		outputBytes, err = t.number(outputBytesKey)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return records, results, claims, expiry, outputs, outputBytes
}

func brief(id string, retention time.Duration) dedupe.Request {
	req := request(id, tool.NonIdempotent)
	req.Retention = retention
	return req
}

func TestExpiredRecordsLeaveTheFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		for i := range 3 * sweepIdle {
			id := fmt.Sprint(i)
			claim(t, s, brief(id, time.Hour))
			if i%3 != 0 { // some stay claimed
				end := settlement(id, "ok")
				end.Retention = time.Hour
				settle(t, s, end)
			}
		}
		finished(t, s, "longer", "ok") // a day
		time.Sleep(time.Hour + 2*sweepSlack)
		synctest.Wait()
		records, results, claims, expiry, _, _ := sizes(t, s)
		if records != 1 || results != 1 || claims != 0 || expiry != 1 {
			t.Errorf("left: %d records, %d results, %d claims, %d to expire; want only the longer one", records, results, claims, expiry)
		}
		if got := lookup(t, s, "longer"); got.State != dedupe.Done {
			t.Errorf("longer is %v", got.State)
		}
	})
}

// A claim that was forgotten, and whose owner says that it runs, is claimed no
// more where it is unknown from then on: a file that notes it as open would not be
// opened again.
func TestAForgottenClaimIsRestored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store.db")
		s := open(t, path, Options{})
		req := brief("x", time.Minute)
		claim(t, s, req)
		time.Sleep(time.Minute + sweepSlack/2) // forgotten, and not swept yet
		record, restored, err := s.Restore(t.Context(), dedupe.Restoration{
			Key: req.Key, Lease: req.Lease, Retention: time.Hour, Claim: dedupe.Record{
				State: dedupe.Claimed, Epoch: 1, Owner: req.Owner, Tool: req.Tool, Effect: req.Effect, Fingerprint: req.Fingerprint,
				StartedAt: time.Now(),
			},
		})
		if err != nil || !restored || record.State != dedupe.Unknown {
			t.Fatal(record.State, restored, err)
		}
		if _, _, claims, _, _, _ := sizes(t, s); claims != 0 {
			t.Errorf("%d open claims are noted", claims)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if got := lookup(t, open(t, path, Options{}), "x"); got.State != dedupe.Unknown {
			t.Errorf("after it was opened again it is %v", got.State)
		}
	})
}

// A record that is kept being renewed is queued again each time it is due.
func TestRenewedRecordsStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		claim(t, s, brief("x", 10*time.Minute))
		for range 12 {
			time.Sleep(5 * time.Minute)
			if ok, err := s.Renew(context.Background(), request("x", 0).Key, "owner of x", 1, time.Minute); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if records, _, claims, expiry, _, _ := sizes(t, s); records != 1 || claims != 1 || expiry != 1 {
			t.Errorf("%d records, %d claims, %d to expire", records, claims, expiry)
		}
	})
}

// A forgotten id that is used again before it is swept is one record, not two.
func TestAForgottenIDIsUsedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		claim(t, s, brief("x", time.Minute))
		end := settlement("x", "first")
		end.Retention = time.Minute
		settle(t, s, end)
		time.Sleep(time.Minute)
		claim(t, s, brief("x", time.Hour))
		settle(t, s, settlement("x", "second"))
		time.Sleep(3 * time.Minute)
		if records, results, claims, expiry, _, _ := sizes(t, s); records != 1 || results != 1 || claims != 0 || expiry != 1 {
			t.Errorf("%d records, %d results, %d claims, %d to expire", records, results, claims, expiry)
		}
		s = reopen(t, s) // which checks the file
		if got := lookup(t, s, "x"); string(got.Result) != "second" {
			t.Errorf("replays %q", got.Result)
		}
	})
}

// Retention ends for a call of unknown outcome as for any other.
func TestAnUnknownCallIsForgottenToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		claim(t, s, brief("x", time.Minute))
		end := settlement("x", "")
		end.State, end.Retention = dedupe.Unknown, time.Minute
		settle(t, s, end)
		if a, err := s.Admit(t.Context(), brief("x", time.Hour)); err != nil || a.Verdict != dedupe.OutcomeUnknown {
			t.Fatalf("while it is remembered: %v, %v", a.Verdict, err)
		}
		time.Sleep(time.Minute)
		claim(t, s, brief("x", time.Hour))
	})
}

func TestASweepIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		for i := range 100 {
			claim(t, s, brief(fmt.Sprint(i), time.Minute))
		}
		// Hold the sweeper's view of the time back, then let one request see
		// all that has expired meanwhile.
		tx, err := s.db.Begin(true)
		if err != nil {
			t.Fatal(err)
		}
		txn := newTxn(tx, &s.database)
		txn.now = txn.now.Add(time.Hour)
		if err := s.sweep(txn, 10); err != nil {
			t.Fatal(err)
		}
		if len(txn.moved) != 10 {
			t.Errorf("swept %d at once", len(txn.moved))
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	})
}

func (s *Store) mustKeep(t *testing.T, id string, output dedupe.Output) {
	t.Helper()
	claim(t, s, request(id, tool.NonIdempotent))
	end := settlement(id, "ok")
	end.Output = &output
	settle(t, s, end)
}

func TestOutputsAreBounded(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{MaxOutputBytes: 1 << 20})
	piece := bytes.Repeat([]byte("x"), 300<<10)
	for i := range 10 {
		s.mustKeep(t, fmt.Sprint(i), dedupe.Output{Ref: fmt.Sprint(i), Data: piece, TTL: time.Hour + time.Duration(i)*time.Second})
	}
	s = reopen(t, s)
	for i := range 10 {
		_, err := s.Output(context.Background(), "acme", fmt.Sprint(i))
		if kept := err == nil; kept != (i >= 7) {
			t.Errorf("output %d: kept %v (%v), want the newest three", i, kept, err)
		}
	}
	if _, _, _, _, outputs, total := sizes(t, s); outputs != 3 || total != 900<<10 {
		t.Errorf("%d outputs of %d bytes are accounted for", outputs, total)
	}
}

func TestExpiredOutputsLeaveTheFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		for i := range 9 {
			s.mustKeep(t, fmt.Sprint(i), dedupe.Output{Ref: fmt.Sprint(i), Data: make([]byte, 100<<10), TTL: time.Minute})
		}
		s.mustKeep(t, "longer", dedupe.Output{Ref: "longer", Data: []byte("x"), TTL: time.Hour})
		time.Sleep(2 * time.Minute)
		if _, _, _, _, outputs, total := sizes(t, s); outputs != 1 || total != 1 {
			t.Errorf("%d outputs of %d bytes are left, want the longer one", outputs, total)
		}
		if _, err := s.Output(context.Background(), "acme", "longer"); err != nil {
			t.Error(err)
		}
	})
}

// However many calls share a transaction, it takes as many outputs away as it
// adds: else they pile up as long as the store is busy.
func TestAGroupSweepsTheOutputsThatItAdds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		const calls = 50
		for i := range calls {
			id := fmt.Sprint("old ", i)
			s.mustKeep(t, id, dedupe.Output{Ref: id, Data: []byte("expired"), TTL: 100 * time.Millisecond})
		}
		var group []*operation
		for i := range calls {
			id := fmt.Sprint("new ", i)
			claim(t, s, request(id, tool.NonIdempotent))
			end := settlement(id, "ok")
			end.Output = &dedupe.Output{Ref: id, Data: []byte("new"), TTL: time.Hour}
			group = append(group, settling(t, end))
		}
		time.Sleep(200 * time.Millisecond) // less than until the idle store sweeps
		if bad, err := s.transact(group); bad >= 0 || err != nil {
			t.Fatal(bad, err)
		}
		if _, _, _, _, outputs, _ := sizes(t, s); outputs != calls {
			t.Errorf("%d outputs are left, want the %d new ones", outputs, calls)
		}
	})
}

// A sweep is bounded by what it takes away, too: large outputs have many pages.
func TestASweepOfLargeOutputsIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		const outputs = 6
		for i := range outputs {
			s.mustKeep(t, fmt.Sprint(i), dedupe.Output{Ref: fmt.Sprint(i), Data: make([]byte, sweepBytes/2), TTL: 100 * time.Millisecond})
		}
		time.Sleep(200 * time.Millisecond)
		tx, err := s.db.Begin(true)
		if err != nil {
			t.Fatal(err)
		}
		txn := newTxn(tx, &s.database)
		if err := s.sweep(txn, 100); err != nil {
			t.Fatal(err)
		}
		if left, err := txn.number(outputBytesKey); err != nil || left != (outputs-2)*sweepBytes/2 {
			t.Errorf("%d bytes of %d outputs are left (%v)", left, outputs, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	})
}

// The same ref kept again after it expired has a time of its own.
func TestARefIsKeptAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		s.mustKeep(t, "x", dedupe.Output{Ref: "ref", Data: []byte("first"), TTL: 500 * time.Millisecond})
		time.Sleep(600 * time.Millisecond)
		s.mustKeep(t, "y", dedupe.Output{Ref: "ref", Data: []byte("second"), TTL: time.Hour})
		time.Sleep(time.Minute)
		got, err := s.Output(context.Background(), "acme", "ref")
		if err != nil || string(got.Data) != "second" {
			t.Errorf("got %q, %v", got.Data, err)
		}
		if _, _, _, _, outputs, total := sizes(t, s); outputs != 1 || total != 6 {
			t.Errorf("%d outputs of %d bytes", outputs, total)
		}
	})
}

// A ref that is kept again gives way by its new time, not by the one that it had.
func TestARefKeptAgainGivesWayByItsNewTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{MaxOutputBytes: 1 << 20})
		data := make([]byte, 600<<10)
		s.mustKeep(t, "x", dedupe.Output{Ref: "again", Data: data[:300<<10], TTL: 500 * time.Millisecond})
		s.mustKeep(t, "y", dedupe.Output{Ref: "other", Data: data, TTL: time.Hour})
		claim(t, s, request("z", tool.NonIdempotent))
		time.Sleep(600 * time.Millisecond) // it has expired, and is not swept
		end := settlement("z", "ok")
		end.Output = &dedupe.Output{Ref: "again", Data: data, TTL: 2 * time.Hour}
		settle(t, s, end)
		if _, err := s.Output(t.Context(), "acme", "again"); err != nil {
			t.Errorf("what was just kept: %v", err)
		}
		if _, err := s.Output(t.Context(), "acme", "other"); !errors.Is(err, dedupe.ErrNoOutput) {
			t.Errorf("what expires first: %v", err)
		}
		if _, _, _, _, outputs, total := sizes(t, s); outputs != 1 || total != 600<<10 {
			t.Errorf("%d outputs of %d bytes", outputs, total)
		}
	})
}

// A store that may not grow refuses new calls and lives; with room again it
// goes on.
func TestAFullStoreRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{MaxFileBytes: 1 << 20})
		var full error
		n := 0
		for ; full == nil; n++ {
			a, err := s.Admit(context.Background(), brief(fmt.Sprint(n), time.Minute))
			if err != nil {
				full = err
				break
			}
			if a.Verdict != dedupe.Won {
				t.Fatal(a.Verdict)
			}
			end := settlement(fmt.Sprint(n), "ok")
			end.Result, end.Retention = make([]byte, 10<<10), time.Minute
			if _, err := s.Settle(context.Background(), end); err != nil {
				full = err
			}
		}
		if !errors.Is(full, dedupe.ErrFull) {
			t.Fatalf("after %d calls: %v", n, full)
		}
		if got := lookup(t, s, "0"); got.State != dedupe.Done {
			t.Errorf("an old record is %v", got.State)
		}
		if err := s.Ping(context.Background()); err != nil {
			t.Errorf("Ping: %v", err)
		}
		time.Sleep(3 * time.Minute)
		finished(t, s, "afterwards", "ok")
	})
}

// An open claim whose retention is over is forgotten; the next start, which
// decides the open claims, does not bring it back.
func TestARestartDoesNotRecallForgottenClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store.db")
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Admit(t.Context(), brief("x", time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again := open(t, path, Options{})
		record, err := again.Lookup(t.Context(), brief("x", time.Hour).Key)
		if err != nil || record.State != dedupe.Absent {
			t.Errorf("got %v, %v; want absent", record.State, err)
		}
	})
}
