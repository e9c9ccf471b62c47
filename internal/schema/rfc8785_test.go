package schema_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/schema"
)

// The test data of the RFC's authors, byte for byte.
func TestCanonicalOfTheAuthorsTestData(t *testing.T) {
	files, err := filepath.Glob("testdata/rfc8785/input/*.json")
	if err != nil || len(files) != 6 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		in, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("testdata/rfc8785/output", filepath.Base(file)))
		if err != nil {
			t.Fatal(err)
		}
		if got := canonicalText(t, string(in)); got != string(want) {
			t.Errorf("%s:\ngot  %s\nwant %s", file, got, want)
		}
		if again := canonicalText(t, string(want)); again != string(want) {
			t.Errorf("%s: canonical once more: %s", file, again)
		}
	}
}

// The authors' sequence of doubles: edge cases, then those that SHA-256 makes
// of itself. The sum of the lines "bits,text" is the authors', too.
func TestCanonicalOfTheAuthorsDoubles(t *testing.T) {
	sums := map[int]string{
		1_000:   "be18b62b6f69cdab33a7e0dae0d9cfa869fda80ddc712221570f9f40a5878687",
		10_000:  "b9f7a8e75ef22a835685a52ccba7f7d6bdc99e34b010992cbc5864cd12be6892",
		100_000: "22776e6d4b49fa294a0d0f349268e5c28808fe7e0cb2bcbe28f63894e494d4c7",
	}
	var lines []byte
	next := doubles(t)
	for n := 1; n <= 100_000; n++ {
		f := next()
		lines = append(strconv.AppendUint(lines, math.Float64bits(f), 16), ',')
		var err error
		if lines, err = schema.AppendCanonical(lines, f); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, '\n')
		if want, ok := sums[n]; ok {
			if sum := sha256.Sum256(lines); hex.EncodeToString(sum[:]) != want {
				t.Errorf("the first %d lines have another sum; the last of them is %s", n, lines[bytes.LastIndexByte(lines[:len(lines)-1], '\n')+1:])
			}
		}
	}
}

// doubles generates the sequence as the authors' numgen does.
func doubles(t *testing.T) func() float64 {
	t.Helper()
	text, err := os.ReadFile("testdata/rfc8785/doubles.txt")
	if err != nil {
		t.Fatal(err)
	}
	var first []uint64
	for line := range strings.FieldsSeq(string(text)) {
		bits, err := strconv.ParseUint(line, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		first = append(first, bits)
	}
	const smallestNormal = 0x0010000000000000
	for i := range uint64(2000) {
		first = append(first, smallestNormal+i)
	}
	var block [sha256.Size]byte
	var data []byte
	return func() float64 {
		if len(first) > 0 {
			f := math.Float64frombits(first[0])
			first = first[1:]
			return f
		}
		for {
			if len(data) == 0 {
				block = sha256.Sum256(block[:])
				data = block[:]
			}
			f := math.Float64frombits(binary.LittleEndian.Uint64(data))
			data = data[8:]
			if f != 0 && !math.IsNaN(f) && !math.IsInf(f, 0) {
				return f
			}
		}
	}
}
