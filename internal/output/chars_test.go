package output

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// clusters are graphemes of all kinds, none longer than maxCluster.
var clusters = []string{
	"a", " ", "\n", "é", "e\u0301", "日", "👨\u200d👩\u200d👧\u200d👦", "🇩🇪", "🇫🇷", "🏳\ufe0f\u200d🌈", "👍🏽", "한", "각",
	"กำ", "क्", "நி", "1\ufe0f⃣", "🏴" + flagTags[1], "a" + strings.Repeat("\u0301", 40),
}

func randomText(r *rand.Rand, n int) []byte {
	var b []byte
	for range n {
		b = append(b, clusters[r.IntN(len(clusters))]...)
	}
	return b
}

func TestCountingAgreesWithDecoding(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		b := randomText(r, n)
		if got, want := countChars(b), utf8.RuneCount(b); got != want {
			t.Fatalf("%q: %d characters, want %d", b, got, want)
		}
		chars := 0
		for i := range string(b) {
			if got := indexChar(b, chars); got != i {
				t.Fatalf("%q: character %d at %d, want %d", b, chars, got, i)
			}
			if got := lastChars(b, countChars(b)-chars); got != i {
				t.Fatalf("%q: last %d characters at %d, want %d", b, countChars(b)-chars, got, i)
			}
			chars++
		}
		if indexChar(b, chars) != len(b) || indexChar(b, chars+9) != len(b) || lastChars(b, chars+9) != 0 {
			t.Fatalf("%q: past the ends", b)
		}
	}
}

func boundaries(b []byte) map[int]bool {
	at := map[int]bool{0: true, len(b): true}
	for g := uniseg.NewGraphemes(string(b)); g.Next(); {
		_, to := g.Positions()
		at[to] = true
	}
	return at
}

func TestClustersAreNotSplit(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	texts := [][]byte{
		[]byte(strings.Repeat("🇩🇪", 300)), []byte("x" + strings.Repeat("🇫🇷", 301) + "y"),
		[]byte(strings.Repeat("日本", 100)), []byte("a\r\n\r\nb\r\n"),
	}
	for range 100 {
		texts = append(texts, randomText(r, 40))
	}
	for _, b := range texts {
		want := boundaries(b)
		for i := range string(b) {
			floor, ceil := clusterFloor(b, i), clusterCeil(b, i)
			if !want[floor] || !want[ceil] || floor > i || ceil < i {
				t.Fatalf("%q: around %d: %d and %d are not both boundaries", b, i, floor, ceil)
			}
			for j := floor + 1; j < ceil; j++ {
				if want[j] {
					t.Fatalf("%q: around %d: %d and %d are not the nearest", b, i, floor, ceil)
				}
			}
		}
	}
}

func TestAClusterWithoutEndIsSplit(t *testing.T) {
	b := []byte("a" + strings.Repeat("\u0301", 5000) + "b")
	for _, i := range []int{101, 2001, 9001} {
		if clusterFloor(b, i) != i || clusterCeil(b, i) != i {
			t.Errorf("at %d: cut at %d and %d", i, clusterFloor(b, i), clusterCeil(b, i))
		}
	}
}
