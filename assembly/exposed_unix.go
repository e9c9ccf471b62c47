//go:build unix

package assembly

import (
	"io/fs"
	"os"
	"syscall"
)

// writableByOthers reports whether somebody else than root and the user of this
// process may write to a file. A group that has the number of its user is that
// user's own.
func writableByOthers(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	mode := info.Mode().Perm()
	foreign := owner.Uid != 0 && int(owner.Uid) != os.Geteuid()
	return mode&0o002 != 0 || mode&0o020 != 0 && owner.Gid != owner.Uid || mode&0o200 != 0 && foreign
}
