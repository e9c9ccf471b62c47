package receipt_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/receipt"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
)

const retention = 24 * time.Hour

// kept is what a store keeps of a conversation with some settled payments.
func kept(t *testing.T, payments int) receipt.Input {
	t.Helper()
	store := embedded.InMemory(embedded.Options{})
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	in := receipt.Input{Records: map[receipt.Call]receipt.Record{}}
	for i := range payments {
		time.Sleep(time.Second) // of the bubble
		key := tool.CallID{Conversation: "c", Turn: "t", ID: fmt.Sprint("call-", i+1)}
		req := dedupe.Request{Key: key, Tool: "pay", Effect: tool.NonIdempotent, Owner: "me", Lease: time.Hour, Retention: retention, Receipt: true}
		if _, err := store.Admit(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		end := dedupe.Settlement{Key: key, Owner: "me", Epoch: 1, State: dedupe.Done, Attempts: 1, Result: []byte("paid " + key.ID), Retention: retention, Receipt: true}
		if _, err := store.Settle(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		record, err := storetest.Lookup(t.Context(), store, key)
		if err != nil {
			t.Fatal(err)
		}
		in.Records[receipt.Call{Turn: "t", ID: key.ID}] = receipt.Record{Outcome: record.Outcome(), Finished: record.FinishedAt, Receipted: record.Receipted()}
	}
	known, err := store.Note(t.Context(), dedupe.Note{Key: tool.CallID{Conversation: "c", ID: "."}, Receipts: true})
	if err != nil {
		t.Fatal(err)
	}
	in.Head, in.Now, in.Lines = known.Chain.Head, known.Chain.Now, known.Chain.Lines
	return in
}

// Whatever is changed, or left out, is found: in the receipts, in the records, at the end.
// forgetTwo lets the time go by that the first two of four receipts are kept for.
func forgetTwo(in *receipt.Input) {
	in.Now = in.Now.Add(retention)
	in.Lines[2].Body, in.Lines[3].Body = "", ""
	for _, id := range []string{"call-1", "call-2"} {
		delete(in.Records, receipt.Call{Turn: "t", ID: id})
	}
}

func TestWhatWasChangedIsFound(t *testing.T) {
	call := func(n int) receipt.Call { return receipt.Call{Turn: "t", ID: fmt.Sprint("call-", n)} }
	for name, c := range map[string]struct {
		change func(in *receipt.Input)
		want   []string
	}{
		"nothing": {func(*receipt.Input) {}, nil},
		"a receipt": {func(in *receipt.Input) {
			in.Lines[1].Body = strings.Replace(in.Lines[1].Body, "done", "not_run", 1)
		}, []string{"receipt 3 is not the one that stood there", `the record of "call-3" of turn "t" is not what receipt 3 says of it: it is done now, and was not_run`}},
		"the last receipt": {func(in *receipt.Input) {
			in.Lines[0].Body = strings.Replace(in.Lines[0].Body, "pay", "say", 1)
		}, []string{"receipt 4 is not the one that stood there"}},
		"a receipt is left out": {func(in *receipt.Input) { in.Lines[2].Body = "" }, []string{"receipt 2 is missing: it is kept until", `"call-2" of turn "t" was settled`}},
		"a receipt is no more":  {func(in *receipt.Input) { in.Lines[1].Body = "{" }, []string{"receipt 3 is not the one", "receipt 3:", `"call-3" of turn "t" was settled`}},
		"a receipt stands elsewhere": {func(in *receipt.Input) {
			in.Lines[1].Body, in.Lines[2].Body = in.Lines[2].Body, in.Lines[1].Body
		}, []string{"receipt 3 is not the one", "it is line 2", "it is line 3", `"call-2"`, `"call-3"`}},
		"the first is cut off": {func(in *receipt.Input) { in.Lines[3].Body = "" }, []string{"receipt 1 is missing"}},
		"a record": {func(in *receipt.Input) {
			r := in.Records[call(2)]
			r.Result = "another"
			in.Records[call(2)] = r
		}, []string{`the record of "call-2" of turn "t" is not what receipt 2 says of it`}},
		"a record that was settled since the receipts were read": {func(in *receipt.Input) {
			r := in.Records[call(2)]
			r.Result, r.Finished = "another", in.Now.Add(time.Second)
			in.Records[call(2)] = r
		}, nil},
		"a record is left out": {func(in *receipt.Input) { delete(in.Records, call(2)) }, []string{`the record of "call-2" of turn "t" is missing`}},
		"a record without a receipt": {func(in *receipt.Input) {
			in.Records[receipt.Call{ID: "x"}] = receipt.Record{Receipted: true, Finished: in.Now}
		}, []string{`"x" was settled`}},
		"one from before there were any": {func(in *receipt.Input) {
			in.Records[receipt.Call{ID: "x"}] = receipt.Record{Receipted: true, Finished: in.Now.Add(-time.Hour)}
		}, nil},
		"one that leaves none": {func(in *receipt.Input) {
			in.Records[receipt.Call{ID: "x"}] = receipt.Record{Finished: in.Now}
		}, nil},
		"the end is what was noted":      {func(in *receipt.Input) { in.Noted = &receipt.Noted{Count: 4, Hash: in.Hash} }, nil},
		"it goes on from what was noted": {func(in *receipt.Input) { in.Noted = &receipt.Noted{Count: 2, Hash: in.Lines[2].Hash()} }, nil},
		"the end was taken off":          {func(in *receipt.Input) { in.Noted = &receipt.Noted{Count: 5, Hash: in.Hash} }, []string{"there are 4 receipts, and there were 5"}},
		"another chain, whole in itself": {func(in *receipt.Input) { in.Noted = &receipt.Noted{Count: 4, Hash: in.Lines[1].Hash()} }, []string{"the last receipt has another hash"}},
		"another beginning":              {func(in *receipt.Input) { in.Noted = &receipt.Noted{Count: 2, Hash: in.Hash} }, []string{"receipt 2 has another hash than was noted"}},
		"what was noted is forgotten, and shown by the one after it": {func(in *receipt.Input) {
			in.Noted = &receipt.Noted{Count: 2, Hash: in.Lines[2].Hash()}
			forgetTwo(in)
		}, nil},
		"what was noted is forgotten, and was another": {func(in *receipt.Input) {
			in.Noted = &receipt.Noted{Count: 2, Hash: in.Hash}
			forgetTwo(in)
		}, []string{"receipt 2 has another hash than was noted"}},
		"what was noted is forgotten, and the one after it": {func(in *receipt.Input) {
			in.Noted = &receipt.Noted{Count: 1, Hash: in.Hash}
			forgetTwo(in)
		}, []string{"receipt 1 was noted, and is not there to be compared"}},
		"time goes by": {forgetTwo, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var in receipt.Input
			synctest.Test(t, func(t *testing.T) { in = kept(t, 4) })
			c.change(&in)
			got := receipt.Verify(in)
			if len(got.Problems) != len(c.want) {
				t.Fatalf("%q, want %q", got.Problems, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(got.Problems[i], want) && !strings.Contains(strings.Join(got.Problems, "\n"), want) {
					t.Errorf("%q, want %q", got.Problems[i], want)
				}
			}
		})
	}
}

// What is forgotten is told, and so is what was looked at.
func TestWhatIsVerified(t *testing.T) {
	var in receipt.Input
	synctest.Test(t, func(t *testing.T) { in = kept(t, 3) })
	if got := receipt.Verify(in); got.Checked != 3 || got.Forgotten != 0 || got.Since.IsZero() {
		t.Errorf("%+v", got)
	}
	in.Now = in.Now.Add(retention)
	in.Lines[1].Body, in.Lines[2].Body = "", ""
	if got := receipt.Verify(in); got.Checked != 1 || got.Forgotten != 2 || len(got.Problems) != 0 {
		t.Errorf("%+v", got)
	}
	if got := receipt.Verify(receipt.Input{}); got.Checked != 0 || len(got.Problems) != 0 {
		t.Errorf("of nothing: %+v", got)
	}
}

// A call that has not run after all, and then runs, is what its last receipt says.
func TestACallThatRunsAgain(t *testing.T) {
	var in receipt.Input
	synctest.Test(t, func(t *testing.T) { in = kept(t, 1) })
	r := in.Records[receipt.Call{Turn: "t", ID: "call-1"}]
	in.Lines[0].Body = strings.Replace(in.Lines[0].Body, `"done"`, `"not_run"`, 1)
	in.Hash = in.Lines[0].Hash()
	for state, epoch := range map[string]int64{"claimed": 2, "closed": 1, "held": 1, "not_run": 1} {
		r.State, r.Epoch = state, epoch
		in.Records[receipt.Call{Turn: "t", ID: "call-1"}] = r
		if got := receipt.Verify(in); len(got.Problems) != 0 {
			t.Errorf("%s: %q", state, got.Problems)
		}
	}
	r.State, r.Epoch, r.Result = "not_run", 1, "" // once a hold of it is over
	in.Records[receipt.Call{Turn: "t", ID: "call-1"}] = r
	if got := receipt.Verify(in); len(got.Problems) != 0 {
		t.Errorf("after a hold: %q", got.Problems)
	}
	r.State, r.Epoch = "claimed", 1
	in.Records[receipt.Call{Turn: "t", ID: "call-1"}] = r
	if got := receipt.Verify(in); len(got.Problems) != 1 {
		t.Errorf("%q", got.Problems)
	}
}

func TestAHeadThatWasNoted(t *testing.T) {
	noted := receipt.Noted{Count: 12, Hash: strings.Repeat("ab", 32)}
	if got, err := receipt.ParseNoted(noted.String()); err != nil || *got != noted {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := receipt.ParseNoted(strings.ToUpper(noted.String())); err != nil || *got != noted {
		t.Errorf("in capitals: %v, %v", got, err)
	}
	if got, err := receipt.ParseNoted(""); err != nil || got != nil {
		t.Errorf("nothing: %v, %v", got, err)
	}
	for _, text := range []string{"12", ":", "0:" + noted.Hash, "-1:" + noted.Hash, "x:" + noted.Hash, "12:ab", "12:" + strings.Repeat("zz", 32)} {
		if got, err := receipt.ParseNoted(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
