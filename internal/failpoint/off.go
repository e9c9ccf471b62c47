//go:build !failpoint

package failpoint

// Hit does nothing: this is not a build with the tag failpoint.
func Hit(Name) {}
