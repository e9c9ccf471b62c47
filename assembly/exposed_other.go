//go:build !unix

package assembly

import "io/fs"

// writableByOthers reports false: modes say nothing here.
func writableByOthers(fs.FileInfo) bool { return false }
