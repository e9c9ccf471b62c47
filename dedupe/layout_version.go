//go:build !laterlayout

package dedupe

// LayoutVersion is the first byte of a record as it is written, OldestLayout the lowest that is read.
const (
	LayoutVersion = 1
	OldestLayout  = LayoutVersion
)
