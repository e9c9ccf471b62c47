package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

const transcript = `
1. A tool throws
   call   get_report   [toolu_1]

2. Noise <on> the line
   model  {"temperature":21}
   kept    two failures were absorbed

3. An end
   kept    it ends

3 promises kept, 0 broken, 9 calls, 1.7s
`

func drawn(t *testing.T, of string, scenes ...string) string {
	t.Helper()
	var out strings.Builder
	if err := run(strings.NewReader(of), &out, scenes); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestThePictureShowsTheScenesAndTheSum(t *testing.T) {
	picture := drawn(t, transcript, "2")
	for _, want := range []string{"Noise &lt;on&gt; the line", "two failures were absorbed", ">3 promises kept, 0 broken<"} {
		if !strings.Contains(picture, want) {
			t.Errorf("no %s in %s", want, picture)
		}
	}
	for _, not := range []string{"A tool throws", "get_report", "An end", "9 calls", "1.7s"} {
		if strings.Contains(picture, not) {
			t.Errorf("%s in %s", not, picture)
		}
	}
	decoder := xml.NewDecoder(strings.NewReader(picture))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestNoRowIsTooLong(t *testing.T) {
	long := "   model  " + strings.Repeat("a word, ", 50) + strings.Repeat("x", 300)
	for _, row := range wrapped(long) {
		if n := len([]rune(row)); n > columns {
			t.Errorf("%d characters: %s", n, row)
		}
	}
	bare := func(s string) string { return strings.ReplaceAll(s, " ", "") }
	if got := bare(strings.Join(wrapped(long), "")); got != bare(long) {
		t.Errorf("something is lost: %s", got)
	}
}

func TestWhatIsNoDemoIsNotDrawn(t *testing.T) {
	for name, text := range map[string]string{"nothing": "", "cut off": transcript[:100], "without the scene": strings.Replace(transcript, "2. ", "4. ", 1)} {
		if err := run(strings.NewReader(text), io.Discard, []string{"2"}); err == nil {
			t.Errorf("%s is drawn", name)
		}
	}
}
