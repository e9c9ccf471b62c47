package main

import (
	"testing"
	"time"
)

// Ids are somebody else's: what is not plain is shown quoted.
func TestPrintable(t *testing.T) {
	for id, want := range map[string]string{
		"toolu_1": "toolu_1", "": `""`, "-": "-", "a b": `"a b"`, "\x1b[2J": `"\x1b[2J"`, "tab\t": `"tab\t"`, `q"`: `"q\""`, "zürich": "zürich", "\u202e": `"\u202e"`,
	} {
		if got := printable(id); got != want {
			t.Errorf("%q is shown as %s, want %s", id, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	for ago, want := range map[time.Duration]string{
		-time.Hour: "0s", 5 * time.Second: "5s", 3*time.Minute + 5*time.Second: "3m5s", 26 * time.Hour: "26h0m", 49 * time.Hour: "2d",
	} {
		if got := age(time.Now().Add(-ago)); got != want {
			t.Errorf("%v: %s, want %s", ago, got, want)
		}
	}
}
