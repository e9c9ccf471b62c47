package embedded

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// about is a request that is found by a term that others have too.
func about(id string) dedupe.Request {
	req := request(id, tool.NonIdempotent)
	req.Terms = []dedupe.Term{{'a'}, termOf(id)}
	return req
}

// findable are the ids of the calls that have the term.
func findable(t *testing.T, s *Store) (ids []string) {
	t.Helper()
	page, err := s.Find(t.Context(), dedupe.Search{Tenant: "acme", Term: dedupe.Term{'a'}, Most: dedupe.MaxFound})
	if err != nil || page.Next != "" {
		t.Fatalf("%q, %v", page.Next, err)
	}
	for _, call := range page.Calls {
		ids = append(ids, call.Key.ID)
	}
	return ids
}

// Whatever comes and goes, postings are in order, and those of a term are found.
func TestPostingsAreInOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	index := ordered[posting]{compare: posting.compare}
	want := map[posting]posting{} // without and with the digest of the row
	for i := range 40_000 {
		p := posting{term: random.Uint64N(20), number: int64(i)}
		if random.IntN(2) == 0 {
			p.term = random.Uint64()
		}
		if random.IntN(3) == 0 {
			p.number = random.Int64N(int64(i) + 1)
		}
		full := p
		full.of = digest{random.Uint64()}
		index.put(full)
		want[p] = full
		if i > 20_000 {
			for gone := range want {
				index.remove(gone)
				delete(want, gone)
				if random.IntN(3) > 0 {
					break
				}
			}
		}
	}
	in := slices.SortedFunc(maps.Values(want), posting.compare)
	if got := slices.Concat(index.chunks...); !slices.Equal(got, in) {
		t.Fatalf("%d postings are not the %d that were put and not removed", len(got), len(in))
	}
	for term := range uint64(20) {
		before := random.Int64N(40_000)
		mine := slices.DeleteFunc(slices.Clone(in), func(p posting) bool { return p.term != term || p.number >= before })
		if got := ofTerm(&index, term, before); !slices.Equal(got, mine) {
			t.Errorf("of term %d before %d there are %v, want %v", term, before, got, mine)
		}
	}
	for _, chunk := range index.chunks {
		if len(chunk) == 0 || len(chunk) > mostOfChunk {
			t.Errorf("a chunk has %d postings", len(chunk))
		}
		if cap(chunk) > len(chunk)+2*spare {
			t.Errorf("a chunk of %d postings has room for %d", len(chunk), cap(chunk))
		}
	}
}

// ofTerm are the postings of a term before one with a number.
func ofTerm(index *ordered[posting], term uint64, before int64) (all []posting) {
	for p := range index.from(posting{term: term, number: before - 1}) {
		if p.term != term {
			break
		}
		all = append(all, p)
	}
	return all
}

// What is found is moved as the log is gone through, is there after a restart, outlasts its
// records, and then leaves the file and the memory.
func TestWhatIsFoundIsMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		var want []string
		for i := range 20 {
			id := fmt.Sprint(i)
			claim(t, s, about(id))
			want = append([]string{id}, want...)
		}
		settle(t, s, settlement("3", "ok"))
		_, begins := logIs(s)
		pass := func(round int) {
			t.Helper()
			for tail, _ := logIs(s); tail < begins; tail, _ = logIs(s) {
				s.fill(t, fmt.Sprint("filler ", round, " "), segmentSize, time.Minute)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
			}
			_, begins = logIs(s)
		}
		for round := range 3 {
			pass(round)
			if got := findable(t, s); !slices.Equal(got, want) {
				t.Errorf("round %d: found are %q", round, got)
			}
			if s = reopen(t, s); round == 0 {
				s.still(func() {
					if len(s.index.terms.chunks) != 1 || len(s.index.terms.chunks[0]) != 2*len(want) {
						t.Errorf("there are the postings %v", s.index.terms.chunks)
					}
				})
			}
		}
		time.Sleep(48 * time.Hour)
		if got := lookup(t, s, "3"); got.State != dedupe.Absent {
			t.Errorf("its record is %v", got.State)
		}
		pass(3)
		if got := findable(t, s); !slices.Equal(got, want) {
			t.Errorf("found are %q of what is forgotten", got)
		}
		time.Sleep(48 * time.Hour)
		if got := findable(t, s); len(got) > 0 {
			t.Errorf("in the end %q are found", got)
		}
		pass(4)
		s.still(func() {
			if n := len(s.index.terms.chunks); n > 0 {
				t.Errorf("in the end there are %d chunks of postings", n)
			}
		})
	})
}

// The call of a claim that is not one's first has the terms of those before it too.
func TestACallKeepsItsTerms(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	claim(t, s, about("x"))
	end := settlement("x", "")
	end.State = dedupe.NotRun
	settle(t, s, end)
	again := request("x", tool.NonIdempotent)
	again.Owner, again.Terms = "another", []dedupe.Term{{'b'}}
	claim(t, s, again)
	for range 2 {
		for _, term := range []dedupe.Term{{'a'}, {'b'}, termOf("x")} {
			page, err := s.Find(t.Context(), dedupe.Search{Tenant: "acme", Term: term, Most: 10})
			if err != nil || len(page.Calls) != 1 || page.Calls[0].Record.Owner != "another" {
				t.Errorf("by %q: %+v, %v", term, page, err)
			}
		}
		s = reopen(t, s)
	}
	v := indexed{terms: make([]dedupe.Term, dedupe.MaxTerms-1)}
	for i := range v.terms {
		v.terms[i] = dedupe.Term{byte(i)}
	}
	v.add([]dedupe.Term{{1}, {100}, {101}})
	if n := len(v.terms); n != dedupe.MaxTerms || v.terms[n-1] != (dedupe.Term{100}) {
		t.Errorf("it has %d terms, the last %v", n, v.terms[n-1])
	}
}

// A page looks at so many calls and so many bytes, whatever there is.
func TestAPageOfWhatIsFoundIsBounded(t *testing.T) {
	t.Parallel()
	s := InMemory(Options{})
	large := make([]byte, dedupe.MaxFoundBytes/4+1)
	for i := range 10 {
		id := fmt.Sprint(i)
		claim(t, s, about(id))
		end := settlement(id, "")
		end.Result = large
		settle(t, s, end)
	}
	search := dedupe.Search{Tenant: "acme", Term: dedupe.Term{'a'}, Most: 10}
	var sizes []int
	for {
		page, err := s.Find(t.Context(), search)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(page.Calls))
		if search.From = page.Next; search.From == "" {
			break
		}
	}
	if !slices.Equal(sizes, []int{4, 4, 2}) {
		t.Errorf("the pages have %v calls", sizes)
	}
	// Rows that are another's count too: none of these has the term, though its digest.
	s.still(func() {
		term := s.index.term("acme", &dedupe.Term{'z'})
		of := s.index.terms.chunks[0][0].of
		for i := range int64(listBatch + 10) {
			s.index.terms.put(posting{term: term, number: i, of: of})
		}
	})
	search.Term = dedupe.Term{'z'}
	page, err := s.Find(t.Context(), search)
	if err != nil || len(page.Calls) != 0 || page.Next == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	search.From = page.Next
	if page, err = s.Find(t.Context(), search); err != nil || len(page.Calls) != 0 || page.Next != "" {
		t.Errorf("then %+v, %v", page, err)
	}
}
