package output

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rivo/uniseg"

	"github.com/sidecall/sidecall/internal/tool"
)

// readAll reads page by page.
func readAll(t *testing.T, data []byte, limit int64) (pages []string) {
	t.Helper()
	for offset := int64(0); ; {
		page, wrong := Page(t.Context(), data, offset, limit, "")
		if wrong != nil {
			t.Fatal(wrong)
		}
		if page.NextOffset != offset+int64(chars(page.Content)) {
			t.Fatalf("%d characters from %d lead to %d", chars(page.Content), offset, page.NextOffset)
		}
		pages = append(pages, page.Content)
		if page.NextOffset == page.TotalChars {
			return pages
		}
		if page.NextOffset <= offset {
			t.Fatalf("no way on from %d", offset)
		}
		offset = page.NextOffset
	}
}

func TestPagesAreTheWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 30 {
		data := randomText(r, 300)
		want := boundaries(data)
		for _, limit := range []int64{1, 2, 7, 50, 400, 100_000} {
			at := 0
			for _, page := range readAll(t, data, limit) {
				if int64(chars(page)) > limit {
					t.Fatalf("a page of %d characters, asked for %d", chars(page), limit)
				}
				if at += len(page); limit >= 50 && !want[at] {
					t.Fatalf("a page ends within a grapheme: %q", page)
				}
			}
			if at != len(data) {
				t.Fatalf("the pages have %d bytes of %d", at, len(data))
			}
		}
	}
}

func TestPageSizes(t *testing.T) {
	data := []byte(strings.Repeat("0123456789", 100_000))
	for limit, want := range map[int64]int{0: DefaultPage, 1: 1, 17: 17, MaxPage: MaxPage, 1 << 60: MaxPage} {
		page, wrong := Page(t.Context(), data, 3, limit, "")
		if wrong != nil || len(page.Content) != want || !strings.HasPrefix(page.Content, "3") || page.TotalChars != 1_000_000 {
			t.Errorf("limit %d: %d characters (%v)", limit, len(page.Content), wrong)
		}
	}
	if page, wrong := Page(t.Context(), data, 1_000_000, 0, ""); wrong != nil || page.Content != "" || page.NextOffset != 1_000_000 {
		t.Errorf("at the end: %+v, %v", page, wrong)
	}
	if page, wrong := Page(t.Context(), nil, 0, 0, "x"); wrong != nil || page != (PageResult{}) {
		t.Errorf("of nothing: %+v, %v", page, wrong)
	}
}

// A page goes through Shape as every result does; it must not be cut again.
func TestADefaultPageFitsTheDefaultLimit(t *testing.T) {
	page, wrong := Page(t.Context(), []byte(strings.Repeat("a line of text\n", 10_000)), 0, 0, "")
	if wrong != nil {
		t.Fatal(wrong)
	}
	position, boundary := strings.Repeat("p", 300), newBoundary()
	if n := chars(page.Content) + boundary.chars() + len(position); n > DefaultLimit {
		t.Errorf("%d characters", n)
	}
}

func TestWrongParametersAreExplained(t *testing.T) {
	data := []byte("0123456789")
	for name, c := range map[string]struct {
		offset, limit int64
		pattern       string
		want          tool.Error
	}{
		"negative offset": {-1, 0, "", tool.Error{Field: "offset", Constraint: "minimum: 0", Received: "-1",
			Hint: "Set offset to 0 to read from the start, then call read_output again."}},
		"offset beyond the end": {11, 0, "", tool.Error{Field: "offset", Constraint: "maximum: 10", Received: "11",
			Hint: "The output has 10 characters. Set offset to a number from 0 to 10, then call read_output again."}},
		"negative limit": {0, -5, "", tool.Error{Field: "limit", Constraint: "minimum: 1", Received: "-5",
			Hint: "Set limit to the number of characters to read, e.g. 6000, or leave it out."}},
		"no pattern": {0, 0, "(a\u202e\"", tool.Error{Field: "pattern", Constraint: `format: "regex"`, Received: `"(a\""`,
			Hint: "error parsing regexp: missing closing ): `(a\"`. Correct the pattern (RE2 syntax: no lookaround, no backreferences), then call read_output again."}},
		"too long a pattern": {0, 0, strings.Repeat("x", 600), tool.Error{Field: "pattern", Constraint: "maxLength: 512",
			Received: `"` + strings.Repeat("x", 198) + "…",
			Hint:     "Shorten the pattern to 512 bytes at most, then call read_output again."}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Code = tool.CodeInvalidArgs
			page, wrong := Page(t.Context(), data, c.offset, c.limit, c.pattern)
			if wrong == nil || page != (PageResult{}) {
				t.Fatalf("got %+v", page)
			}
			if diff := cmp.Diff(c.want, *wrong); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDamagedDataIsServedAsText(t *testing.T) {
	data := []byte("a\xff\x80b" + strings.Repeat("\x80", 1000) + "c")
	if got := strings.Join(readAll(t, data, 3), ""); got != "a\uFFFDb\uFFFDc" {
		t.Errorf("%q", got)
	}
	if page, wrong := Page(t.Context(), data, 0, 0, "c"); wrong != nil || !utf8.ValidString(page.Content) {
		t.Errorf("%+v, %v", page, wrong)
	}
}

func FuzzPage(f *testing.F) {
	f.Add([]byte("e\u0301🇩🇪🇫🇷 x\nline two\n"), int64(1), int64(3), "l.n")
	f.Add([]byte(strings.Repeat("long ", 500)), int64(0), int64(100), "g")
	f.Add([]byte("\xff\x80"), int64(0), int64(1), "$")
	f.Fuzz(func(t *testing.T, data []byte, offset, limit int64, pattern string) {
		page, wrong := Page(t.Context(), data, offset, limit, pattern)
		if wrong != nil {
			if wrong.Code != tool.CodeInvalidArgs || wrong.Field == "" || wrong.Constraint == "" || wrong.Hint == "" || chars(wrong.Received) > 200 {
				t.Fatalf("%+v", wrong)
			}
			return
		}
		if !utf8.ValidString(page.Content) || page.NextOffset < offset || page.NextOffset > page.TotalChars {
			t.Fatalf("%+v", page)
		}
		if limit > 0 && int64(chars(page.Content)) > limit {
			t.Fatalf("%d characters, asked for %d", chars(page.Content), limit)
		}
		if page.NextOffset == offset && offset < page.TotalChars {
			t.Fatalf("no way on from %d", offset)
		}
		if pattern == "" && utf8.Valid(data) {
			rest := string([]rune(string(data))[offset:])
			if !strings.HasPrefix(rest, page.Content) {
				t.Fatalf("%q does not start with %q", rest, page.Content)
			}
		}
	})
}

// Pages of any size, read one after the other, are the whole, and each ends
// where a reader sees a character end.
func FuzzPages(f *testing.F) {
	f.Add([]byte("e\u0301🇩🇪🇫🇷 x\nline two\n👩‍👩‍👧‍👦"), uint8(3))
	f.Add([]byte(strings.Repeat("a\u0300\u0301\u0302", 50)), uint8(2))
	f.Add([]byte("\xff\x80 broken \xe2\x82"), uint8(1))
	f.Add([]byte("\r\n\r\nकि क्षि 각\u200d"), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, limit uint8) {
		if len(data) > 4<<10 {
			return
		}
		pages := readAll(t, data, int64(limit)+1)
		whole := strings.ToValidUTF8(string(data), "\uFFFD")
		if got := strings.Join(pages, ""); got != whole {
			t.Fatalf("%q became %q", whole, got)
		}
		at := 0
		for _, page := range pages[:len(pages)-1] {
			start := at
			at += len(page)
			if from, to := clusterAround(whole, at); from > start && chars(whole[from:to]) <= maxCluster {
				t.Fatalf("page %q ends inside %q", page, whole[from:to])
			}
		}
	})
}

// clusterAround is the grapheme cluster that position i divides, found from the
// very beginning of the text; none (from is 0) when i is between two.
func clusterAround(text string, i int) (from, to int) {
	for state := -1; to < i; {
		var cluster string
		cluster, _, _, state = uniseg.FirstGraphemeClusterInString(text[to:], state)
		from, to = to, to+len(cluster)
	}
	if to == i {
		return 0, 0
	}
	return from, to
}
