package embedded

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
)

// firstEntry is an entry as the first version has written it, at place 7.
const firstEntry = "01020301000000020000000000000003000000e8d4a51000000000e8d4a5100500000000000000000000" +
	"01d1a94a2000000000000036ee800900000000000000000000000000000000000000000000000000000000000000001461636d65" +
	"000163000131000163616c6c5f3000010006686572652e310006726566756e64e9ed17f7"

func TestAnEntryOfTheFirstVersion(t *testing.T) {
	t.Parallel()
	b, err := hex.DecodeString(firstEntry)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeEntry(bigEndian(7), b)
	key := dedupe.Key{Tenant: "acme", Conversation: "c", Turn: "1", ID: "call_0"}
	if err != nil || got.State != dedupe.Done || got.Effect != tool.Keyed || got.Attempts != 2 || got.Epoch != 3 ||
		got.Owner != "here.1" || got.Tool != "refund" || got.Fingerprint != [32]byte{9} || !got.Mark || got.Retention != time.Hour ||
		!bytes.Equal(got.key, encodeKey(key)) || got.StartedAt.UnixMilli() != 1e12 || got.FinishedAt.UnixMilli() != 1e12+5 || got.expires.UnixMilli() != 2e12 {
		t.Errorf("read as %+v, %v", got, err)
	}
	body := b[:len(b)-crcSize]
	for n := range body {
		if got, err := decodeEntry(bigEndian(7), sealed(bigEndian(7), body[:n])); !errors.Is(err, dedupe.ErrCorrupt) {
			t.Errorf("of %d bytes, %d are read as %+v, %v", len(body), n, got, err)
		}
	}
}

// A file that the first version has written is opened, read and written on.
func TestAFileOfTheFirstVersion(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sidecall.db")
	unpack(t, "testdata/first.db.gz", path)
	s := open(t, path, Options{})
	for id, want := range map[string]dedupe.State{
		"0 claimed": dedupe.Unknown, "0 done": dedupe.Done, "0 not_run": dedupe.NotRun, "0 unknown": dedupe.Unknown,
		"1 claimed": dedupe.NotRun, "1 done": dedupe.Done, "1 not_run": dedupe.NotRun,
	} {
		got, err := s.Lookup(t.Context(), request(id, 0).Key)
		if err != nil || got.State != want || got.Owner != "owner of "+id || got.Epoch != 1 {
			t.Errorf("%s is %v of %q, %v", id, got.State, got.Owner, err)
		}
		if id[2:] != "claimed" && (string(got.Result) != "paid" || got.Attempts != 3) {
			t.Errorf("%s has %q after %d attempts", id, got.Result, got.Attempts)
		}
	}
	if kept, err := s.Output(t.Context(), "acme", "ref0 done"); err != nil || string(kept.Data) != "all of it" {
		t.Errorf("the output is %q, %v", kept.Data, err)
	}
	req := request("1 not_run", tool.Keyed)
	req.Owner, req.Charges = "another", []dedupe.Charge{{Counter: "prompt", Amount: 1}}
	if got := claim(t, s, req); got.Epoch != 2 {
		t.Errorf("claimed again at epoch %d", got.Epoch)
	}
	late := settlement("0 claimed", "late")
	if v, err := s.Settle(context.Background(), late); err != nil || v != dedupe.Settled {
		t.Errorf("a late owner is told %v, %v", v, err)
	}
	s = reopen(t, s)
	got, err := s.Lookup(t.Context(), req.Key)
	if err != nil || got.Owner != "another" || len(got.Charges) != 1 {
		t.Errorf("after a restart: %+v, %v", got, err)
	}
	if got, err := s.Lookup(t.Context(), late.Key); err != nil || string(got.Result) != "late" {
		t.Errorf("after a restart: %+v, %v", got, err)
	}
	// It had no sheets.
	if got := sheets(t, s, req.Key.Conversation); got.Tally.Calls != 1 {
		t.Errorf("after a restart the tally is %+v", got.Tally)
	}
}

func unpack(t *testing.T, from, to string) {
	t.Helper()
	f, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(unzipped)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
