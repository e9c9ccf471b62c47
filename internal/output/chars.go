package output

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Characters are Unicode code points here. In valid UTF-8 that is every byte
// that does not continue another, so counting needs no decoding.

const (
	// maxCluster is the longest grapheme cluster, in code points, that a cut
	// steps around. The longest in use have about 10; a longer one is an
	// attack on the reader or on the cut, and is split.
	maxCluster = 64
	// maxFlags bounds how far a run of regional indicators is followed to its
	// start; whether a position splits a flag depends on all of the run.
	maxFlags = 4096
)

// countChars counts the code points of valid UTF-8.
func countChars(b []byte) int {
	n := len(b)
	for len(b) >= 8 {
		n -= continuations(binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	for _, c := range b {
		if !utf8.RuneStart(c) {
			n--
		}
	}
	return n
}

// continuations counts the bytes of the form 10xxxxxx.
func continuations(x uint64) int {
	return bits.OnesCount64(x >> 7 & ^(x >> 6) & 0x0101010101010101)
}

// indexChar returns the index of the byte at which character n starts; len(b)
// when there are no more than n.
func indexChar(b []byte, n int) int {
	i := 0
	for n >= 8 && len(b)-i >= 8 {
		n -= 8 - continuations(binary.LittleEndian.Uint64(b[i:]))
		i += 8
	}
	for ; i < len(b); i++ {
		if !utf8.RuneStart(b[i]) {
			continue
		}
		if n == 0 {
			break
		}
		n--
	}
	return i
}

// lastChars returns the index of the byte at which the last n characters start.
func lastChars(b []byte, n int) int {
	i := len(b)
	for i > 0 && n > 0 {
		i--
		if utf8.RuneStart(b[i]) {
			n--
		}
	}
	return i
}

// clusterFloor returns the last grapheme boundary at or before i; i itself when
// the cluster there is longer than maxCluster. i is at a code point.
func clusterFloor(b []byte, i int) int {
	if sureBoundary(b, i) {
		return i
	}
	end := window(b, i)
	start := restart(b, i)
	last, at, state := i, start, -1
	for at < i {
		var cluster []byte
		last = at
		cluster, _, _, state = uniseg.FirstGraphemeCluster(b[at:end], state)
		at += len(cluster)
	}
	unsure := last == start && !sureBoundary(b, start)
	if at == i || unsure || countChars(b[last:at]) > maxCluster {
		return i
	}
	return last
}

// clusterCeil returns the first grapheme boundary at or after i; i itself when
// the cluster there is longer than maxCluster.
func clusterCeil(b []byte, i int) int {
	if sureBoundary(b, i) {
		return i
	}
	end := window(b, i)
	at, state := restart(b, i), -1
	for at < i {
		var cluster []byte
		cluster, _, _, state = uniseg.FirstGraphemeCluster(b[at:end], state)
		at += len(cluster)
	}
	if at == end && end < len(b) {
		return i
	}
	return at
}

// sureBoundary reports that i is a boundary whatever stands further away: at
// the ends, and between two ASCII characters.
func sureBoundary(b []byte, i int) bool {
	if i <= 0 || i >= len(b) {
		return true
	}
	return b[i-1] < utf8.RuneSelf && b[i] < utf8.RuneSelf && (b[i-1] != '\r' || b[i] != '\n')
}

// restart returns a place before i from which clusters can be told: a sure
// boundary, or so far back that segmentation has found its feet at i.
func restart(b []byte, i int) int {
	for n := 0; n < maxFlags && !sureBoundary(b, i); n++ {
		r, size := utf8.DecodeLastRune(b[:i])
		if n >= maxCluster && !regionalIndicator(r) {
			break
		}
		i -= size
	}
	return i
}

// window bounds how far behind i a cluster is looked for.
func window(b []byte, i int) int {
	return i + indexChar(b[i:], maxCluster)
}

func regionalIndicator(r rune) bool { return r >= 0x1F1E6 && r <= 0x1F1FF }
