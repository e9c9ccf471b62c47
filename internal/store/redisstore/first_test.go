package redisstore

import (
	"fmt"
	"slices"
	"testing"
)

// Entries of a shard may go between two questions, so that those that were enough are not: the other
// shards are then asked for what is missing, and nothing is left out.
func TestThePageOfASearchWhoseEntriesGo(t *testing.T) {
	const want = 12
	stored := [2][]entry{}
	for i := range 40 {
		stored[i%2] = append(stored[i%2], entry(fmt.Sprintf("%02d", i)))
	}
	asked := 0
	parts := make([]part, 2)
	found, err := first(want, parts, func(missing func(part) bool, most int) error {
		if asked++; asked == 1 {
			most = 6
		} else {
			stored[0] = stored[0][4:] // claimed anew
		}
		for i := range parts {
			if !missing(parts[i]) {
				continue
			}
			parts[i] = part{entries: slices.Clone(stored[i][:min(most, len(stored[i]))]), known: lastEntry}
			if most < len(stored[i]) {
				parts[i].known = parts[i].entries[most-1]
			}
		}
		return nil
	})
	if err != nil || len(found) != want || asked > 10 {
		t.Fatalf("%d entries after %d questions, want %d: %v, %v", len(found), asked, want, found, err)
	}
}
