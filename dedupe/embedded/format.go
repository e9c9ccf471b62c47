package embedded

import (
	"bytes"
	"fmt"
	"io"
)

// anotherFormat looks for the name of the file's layout, before anything is judged by
// the layout of this version: what another one writes is not damaged, and whoever
// removed it for that would have its calls run again. nil when the name is this one's,
// or cannot be read: then the file is damaged, which is found out.
func anotherFormat(file io.ReaderAt, size int64) (err error) {
	c := &checker{file: file, size: size}
	root, unreadable := c.root()
	if unreadable != nil {
		return nil
	}
	inMeta := func(key, value []byte, _ bool) error { //nolint:unparam // a visitor
		if name, damaged := verified(key, value); damaged == nil && bytes.Equal(key, formatKey) && string(name) != format {
			err = fmt.Errorf("its format is %q; this version of Sidecall reads %q: it was left untouched, run the version that wrote it", name, format)
		}
		return nil
	}
	_ = c.tree(root, span{}, 0, func(name, value []byte, isBucket bool) error {
		if isBucket && bytes.Equal(name, metaBucket) {
			return c.bucket(value, inMeta)
		}
		return nil
	})
	return err
}
