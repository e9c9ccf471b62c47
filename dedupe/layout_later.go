//go:build laterlayout

package dedupe

// These make the build that stands for a later version in a rolling upgrade (test/prove/upgrade).
const (
	LayoutVersion = 2
	OldestLayout  = 1
)
