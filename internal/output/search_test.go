package output

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/pattern"
)

// searchAll searches page by page.
func searchAll(t *testing.T, data string, limit int64, pattern string) (lines []string) {
	t.Helper()
	for offset := int64(0); ; {
		page, wrong := Page(t.Context(), []byte(data), offset, limit, pattern)
		if wrong != nil {
			t.Fatal(wrong)
		}
		found := strings.SplitAfter(page.Content, "\n")
		found = found[:len(found)-1]
		if len(found) != page.Matches {
			t.Fatalf("%d lines, %d matches", len(found), page.Matches)
		}
		lines = append(lines, found...)
		if page.NextOffset == page.TotalChars {
			return lines
		}
		if page.NextOffset <= offset {
			t.Fatalf("no way on from %d", offset)
		}
		offset = page.NextOffset
	}
}

func TestMatchingLinesComeWithTheirOffsets(t *testing.T) {
	const text = "größe: 1\nwarn: x\n\nerror: disk\r\nerror: net"
	for pattern, want := range map[string]string{
		"error":    "18 30",
		"^error":   "18 30",
		"net$":     "30",
		"(?i)WARN": "9",
		`^\d`:      "",
		"^$":       "17",
		"ß":        "0",
	} {
		page, wrong := Page(t.Context(), []byte(Clean([]byte(text))), 0, 0, pattern)
		if wrong != nil {
			t.Fatal(wrong)
		}
		var offsets []string
		for line := range strings.Lines(page.Content) {
			at, _, _ := strings.Cut(line, ": ")
			offsets = append(offsets, at)
		}
		if got := strings.Join(offsets, " "); got != want {
			t.Errorf("%s: lines at %s, want %s: %q", pattern, got, want, page.Content)
		}
		if page.NextOffset != page.TotalChars {
			t.Errorf("%s: searched up to %d of %d", pattern, page.NextOffset, page.TotalChars)
		}
	}
}

func TestASearchGoesOnWhereItStopped(t *testing.T) {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "line %d 🇩🇪\n", i)
	}
	for _, limit := range []int64{40, 200, 6000} {
		lines := searchAll(t, text.String(), limit, `7\d* `)
		want := 0
		for line := range strings.Lines(text.String()) {
			if regexp.MustCompile(`7\d* `).MatchString(line) {
				want++
			}
		}
		if len(lines) != want {
			t.Errorf("limit %d: %d lines, want %d", limit, len(lines), want)
		}
	}
}

func TestALongLineIsShownAroundItsMatches(t *testing.T) {
	var text strings.Builder
	text.WriteString("[")
	for i := range 20_000 {
		fmt.Fprintf(&text, `{"id":"A-%d","name":"é"},`, i)
	}
	text.WriteString("0]")
	lines := searchAll(t, text.String(), 6000, `"A-1999\d"`)
	shown := strings.Join(lines, "")
	for i := range 10 {
		if !strings.Contains(shown, fmt.Sprintf(`"A-1999%d"`, i)) {
			t.Errorf("A-1999%d is not shown:\n%s", i, shown)
		}
	}
	all := []rune(text.String())
	for _, line := range lines {
		at, excerpt, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		offset, err := strconv.Atoi(at)
		excerpt = strings.TrimSuffix(strings.TrimPrefix(excerpt, "…"), "…")
		if err != nil || !strings.HasPrefix(string(all[offset:]), excerpt) || chars(excerpt) > longLine {
			t.Errorf("at %s: %q", at, excerpt)
		}
	}
}

func TestASmallPageStillShowsTheMatch(t *testing.T) {
	text := strings.Repeat("x", 5000) + "needle" + strings.Repeat("y", 5000)
	for _, limit := range []int64{64, 100, 150, 500} {
		page, wrong := Page(t.Context(), []byte(text), 0, limit, "needle")
		if wrong != nil || !strings.Contains(page.Content, "needle") || int64(chars(page.Content)) > limit {
			t.Errorf("limit %d: %+v, %v", limit, page, wrong)
		}
	}
}

// Every match in a long line is found, wherever the pieces meet.
func TestMatchesAreFoundWherePiecesMeet(t *testing.T) {
	filler := strings.Repeat("é", 600)
	for shift := range 64 {
		text := strings.Repeat("x", shift*16) + strings.Repeat(filler+"needle", 60)
		found := 0
		for _, line := range searchAll(t, text, 100_000, "needle") {
			found += strings.Count(line, "needle")
		}
		if found != 60 {
			t.Fatalf("shift %d: %d of 60", shift, found)
		}
	}
}

func TestALineThatDoesNotFitIsShownInPart(t *testing.T) {
	text := strings.Repeat("abc ", 50) + "\nnext abc\n"
	for _, limit := range []int64{1, 2, 10, 50} {
		page, wrong := Page(t.Context(), []byte(text), 0, limit, "abc")
		if wrong != nil || int64(chars(page.Content)) != limit || page.Matches != 1 || page.NextOffset != 201 {
			t.Errorf("limit %d: %+v, %v", limit, page, wrong)
		}
	}
}

// Both took longer than a call may: 7.2 s, where a call had 5.
func TestTheWorkOfASearchIsBounded(t *testing.T) {
	const costly = `(?:(?:[a-z]{1,10}){1,10}){1,10}!`
	for name, text := range map[string]string{
		"one line":    strings.Repeat("x", 1<<20),
		"short lines": strings.Repeat(strings.Repeat("x", 300)+"\n", 1<<12),
	} {
		want, wrong := compile(costly)
		if wrong != nil {
			t.Fatal(wrong)
		}
		f := finder{data: []byte(text), want: want, meter: pattern.NewMeter(t.Context(), maxWork), limit: 1000}
		at := f.lines(place{})
		if spent := f.meter.Spent(); spent > maxWork+4*maxInstructions || at.index < breath/2 || at.index == len(text) {
			t.Errorf("%s: %d steps for %d bytes, %d are allowed", name, spent, at.index, int64(maxWork))
		}
		if next := f.lines(at); next != at {
			t.Errorf("%s: goes on from %v to %v without any steps left", name, at, next)
		}
		f.meter.Reset(t.Context(), maxWork)
		if next := f.lines(at); next.index <= at.index {
			t.Errorf("%s: does not get on from %v", name, at)
		}
	}
}

func TestASearchEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	page, wrong := Page(ctx, []byte(strings.Repeat("x", 1<<20)), 0, 0, `(?:x?){1000}!`)
	if wrong != nil || page.NextOffset == page.TotalChars {
		t.Errorf("%+v, %v", page, wrong)
	}
}

func TestAPatternThatMultipliesIsRefused(t *testing.T) {
	for _, costly := range []string{strings.Repeat("a{1000}", 5), `(?:.{1,100}){1,10}` + strings.Repeat("x{900}", 4), `(?i)` + strings.Repeat("[!-\U0001E940]", 40)} {
		if _, wrong := Page(t.Context(), []byte("text"), 0, 0, costly); wrong == nil || wrong.Field != "pattern" {
			t.Errorf("%s: %v", costly, wrong)
		}
	}
}
