package storetest

import (
	"fmt"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// receipted claims and settles a call, with a receipt of it.
func (s *suite) receipted(id string, effect tool.Effect, state dedupe.State) {
	s.Helper()
	req := request(id, "owner of "+id, effect, long)
	req.Receipt = true
	s.wantVerdict(s.admit(req), dedupe.Won)
	s.receipt(ends(id, state))
}

func (s *suite) receipt(end dedupe.Settlement) {
	s.Helper()
	end.Receipt = true
	if verdict := s.settle(end); verdict != dedupe.Settled {
		s.Fatalf("%s is %v", end.Key.ID, verdict)
	}
}

// chain reads all receipts of the conversation of the suite.
func (s *suite) chain() (all dedupe.Chain) {
	s.Helper()
	for from := int64(0); ; {
		known, err := s.store.Note(s.Context(), dedupe.Note{Key: tool.CallID{Tenant: "acme", Conversation: "c-1", ID: "."}, Receipts: true, From: from})
		if err != nil {
			s.Fatalf("receipts from %d: %v", from, err)
		}
		part := known.Chain
		all.Head, all.Now, all.Lines = part.Head, part.Now, append(all.Lines, part.Lines...)
		if from = part.Count - int64(len(all.Lines)); from == 0 {
			return all
		}
	}
}

// Each settlement of an effect leaves a receipt, which has the hash of the one before.
func receipts(s *suite) {
	if none := s.chain(); none.Count != 0 || len(none.Lines) != 0 {
		s.Fatalf("of nothing: %+v", none)
	}
	s.receipted("paid", tool.NonIdempotent, dedupe.Done)
	s.receipted("look", tool.ReadOnly, dedupe.Done)
	s.receipted("not run", tool.NonIdempotent, dedupe.NotRun)
	s.receipted("late", tool.NonIdempotent, dedupe.Unknown)
	resolved := ends("late", dedupe.NotRun)
	resolved.Resolves = true
	s.receipt(resolved)
	s.receipt(ends("paid", dedupe.Done)) // once more: it changes nothing
	s.wantVerdict(s.admit(request("silent", "owner of silent", tool.NonIdempotent, long)), dedupe.Won)
	s.settle(ends("silent", dedupe.Done)) // without a receipt
	chain := s.chain()
	want := []string{"late not_run", "late unknown", "paid done"}
	if chain.Count != int64(len(want)) || len(chain.Lines) != len(want) {
		s.Fatalf("%+v, want %q", chain, want)
	}
	hash := chain.Hash
	for i, line := range chain.Lines {
		r, err := line.Receipt()
		if err != nil || r.ID+" "+r.State != want[i] || line.Hash() != hash || r.At.IsZero() || r.At.After(chain.Now) {
			s.Errorf("%+v, %v: want %s, with the hash %s", r, err, want[i], hash)
		}
		if record := s.lookup(key(r.ID)); i != 1 && r.Outcome != record.Outcome() {
			s.Errorf("%+v is not of %+v", r, record)
		}
		hash = r.Before
	}
	if hash != "" {
		s.Errorf("the first has the hash %s before it", hash)
	}
}

// Many receipts are read in pages, and many that are left at once are one chain.
func receiptsInACrowd(s *suite) {
	const calls = 3 * dedupe.ChainPage / 2
	failed := make(chan error, calls)
	for i := range calls {
		go func() {
			req := request(fmt.Sprint("call ", i), fmt.Sprint("owner of call ", i), tool.NonIdempotent, long)
			req.Receipt = true
			_, err := s.store.Admit(s.Context(), req)
			if err == nil {
				end := ends(fmt.Sprint("call ", i), dedupe.Done)
				end.Receipt = true
				_, err = s.store.Settle(s.Context(), end)
			}
			failed <- err
		}()
	}
	for range calls {
		if err := <-failed; err != nil {
			s.Fatal(err)
		}
	}
	chain := s.chain()
	hash, seen := chain.Hash, map[string]bool{}
	for _, line := range chain.Lines {
		r, err := line.Receipt()
		if err != nil || line.Hash() != hash {
			s.Fatalf("%+v, %v: want the hash %s", r, err, hash)
		}
		hash, seen[r.ID] = r.Before, true
	}
	if len(seen) != calls || chain.Count != calls || hash != "" {
		s.Errorf("%d of %d calls on %d lines", len(seen), calls, chain.Count)
	}
}
