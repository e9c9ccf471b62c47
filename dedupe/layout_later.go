//go:build laterlayout

package dedupe

// These make the build that stands for a later version in a rolling upgrade
// (prove/upgrade): its layout differs in the number alone, and it reads the one before.
const (
	LayoutVersion = 2
	OldestLayout  = 1
)
