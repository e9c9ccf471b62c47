//go:build !laterlayout

package dedupe

// LayoutVersion is the first byte of a record as it is written, and OldestLayout the
// lowest that is read. A record with any other is refused (ErrLayout).
const (
	LayoutVersion = 1
	OldestLayout  = LayoutVersion
)
