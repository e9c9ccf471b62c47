package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"io"
	"os"

	"github.com/sidecall/sidecall/dedupe"
)

// bbolt keeps no checksum of its pages, trusts what it reads, and crashes, loops
// or silently misses a key when a page is damaged. So the file is read once at
// Open by this checker, which knows the layout of the pages and trusts nothing:
//
//   - both meta pages are intact, and the file is as long as they say;
//   - every page of the tree is where it should be, is of a kind that may be
//     there and is reached once;
//   - keys are in order and within the range in which a search looks for them;
//   - every value passes its checksum, which covers its key too;
//   - the records, outputs, sheets and conversations that are to expire, the results that
//     records have and the claims that are open are the ones that are there: a page that
//     went missing whole, or is an older copy of itself, does not fit the others.

// The layout of bbolt's file, version 2; numbers are in the machine's order.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHead    = 16 // id 8, flags 2, count 2, overflow 4
	elementSize = 16
	metaSize    = 64

	branchPage   = 0x01
	leafPage     = 0x02
	metaPage     = 0x04
	bucketLeaf   = 0x01 // flag of a leaf element that is a bucket
	bucketHead   = 16   // root page 8, sequence 8
	maxTreeDepth = 64
)

var order = binary.NativeEndian

// verify checks the store at path. It returns the index of its records, and the
// transaction that they are the state after.
func verify(path string) (found *index, newest int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	c := &checker{file: f, size: info.Size(), seed: maphash.MakeSeed(), index: newIndex(), sets: map[string]set{}}
	root, err := c.root()
	if err != nil {
		return nil, 0, err
	}
	if err := anotherFormat(f, info.Size()); err != nil {
		return nil, 0, err
	}
	if err := c.tree(root, span{}, 0, c.topBucket); err != nil {
		return nil, 0, err
	}
	return c.index, c.newest, c.totals()
}

// checker reads a file page by page.
type checker struct {
	file     io.ReaderAt
	size     int64
	pageSize int
	pages    uint64 // ids below it are in use or free
	seen     []uint64
	newest   int64 // transaction
	found    int   // top buckets

	index *index
	seed  maphash.Seed
	// sets are the keys of each bucket; of those ordered by time, what they are of.
	sets map[string]set
}

// set is a fingerprint of a set of keys that does not depend on their order.
type set struct {
	count int
	sum   uint64
}

func (c *checker) add(name string, key []byte) {
	s := c.sets[name]
	s.count++
	s.sum += maphash.Bytes(c.seed, key)
	c.sets[name] = s
}

// visitor is shown every element of a leaf page.
type visitor func(key, value []byte, isBucket bool) error

// span is the range of keys that may be on a page: from ≤ key < to; nil means
// open.
type span struct{ from, to []byte }

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", dedupe.ErrCorrupt, fmt.Sprintf(format, args...))
}

// root reads the two meta pages and returns the root of the newer one.
func (c *checker) root() (root uint64, err error) {
	var first [pageHead + metaSize]byte
	if _, err := c.file.ReadAt(first[:], 0); err != nil {
		return 0, corrupt("the file is shorter than its first page")
	}
	c.pageSize = int(order.Uint32(first[pageHead+8:]))
	if c.pageSize < 512 || c.pageSize > 1<<20 {
		return 0, corrupt("a page size of %d", c.pageSize)
	}
	for id := range uint64(2) {
		page := make([]byte, pageHead+metaSize)
		if _, err := c.file.ReadAt(page, int64(id)*int64(c.pageSize)); err != nil {
			return 0, corrupt("the file is shorter than its meta pages")
		}
		m := page[pageHead:]
		sum := fnv.New64a()
		_, _ = sum.Write(m[:56]) // a hash never fails
		if order.Uint16(page[8:])&metaPage == 0 || order.Uint32(m) != boltMagic || order.Uint32(m[4:]) != boltVersion ||
			int(order.Uint32(m[8:])) != c.pageSize || order.Uint64(m[56:]) != sum.Sum64() {
			return 0, corrupt("meta page %d is damaged", id)
		}
		// Transactions write the two in turn: one that is at the place of the other has
		// taken the place of a newer one.
		if order.Uint64(m[48:])%2 != id {
			return 0, corrupt("meta page %d is another's", id)
		}
		if txid := int64(order.Uint64(m[48:])); txid >= c.newest {
			c.newest, root, c.pages = txid, order.Uint64(m[16:]), order.Uint64(m[40:])
		}
	}
	if need := int64(c.pages) * int64(c.pageSize); c.pages > 1<<40 || c.size < need {
		return 0, corrupt("the file is cut short: %d of %d bytes", c.size, need)
	}
	c.seen = make([]uint64, c.pages/64+1)
	return root, nil
}

// page reads a page with what overflows it, once.
func (c *checker) page(id uint64) ([]byte, error) {
	if id < 2 || id >= c.pages {
		return nil, corrupt("a reference to page %d of %d", id, c.pages)
	}
	b := make([]byte, c.pageSize)
	if _, err := c.file.ReadAt(b, int64(id)*int64(c.pageSize)); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	overflow := uint64(order.Uint32(b[12:]))
	if order.Uint64(b) != id || overflow >= c.pages-id {
		return nil, corrupt("page %d is damaged", id)
	}
	for i := id; i <= id+overflow; i++ {
		if c.seen[i/64]&(1<<(i%64)) != 0 {
			return nil, corrupt("page %d is used twice", i)
		}
		c.seen[i/64] |= 1 << (i % 64)
	}
	if overflow > 0 {
		b = make([]byte, int(overflow+1)*c.pageSize)
		if _, err := c.file.ReadAt(b, int64(id)*int64(c.pageSize)); err != nil {
			return nil, fmt.Errorf("read page %d: %w", id, err)
		}
	}
	return b, nil
}

// tree walks the pages below one, all of whose keys have to be within a span.
func (c *checker) tree(id uint64, within span, depth int, visit visitor) error {
	if depth > maxTreeDepth {
		return corrupt("the tree is too deep")
	}
	b, err := c.page(id)
	if err != nil {
		return err
	}
	if order.Uint16(b[8:]) == branchPage {
		return c.branch(b, within, depth, visit)
	}
	return c.leaf(b, within, visit)
}

func (c *checker) branch(b []byte, within span, depth int, visit visitor) error {
	count := int(order.Uint16(b[10:]))
	if count == 0 || pageHead+count*elementSize > len(b) {
		return corrupt("branch page %d with %d elements", order.Uint64(b), count)
	}
	keys, ids := make([][]byte, count), make([]uint64, count)
	for i := range count {
		at := pageHead + i*elementSize
		key, err := cut(b, at+int(order.Uint32(b[at:])), int(order.Uint32(b[at+4:])))
		if err != nil {
			return err
		}
		if i > 0 && bytes.Compare(keys[i-1], key) >= 0 {
			return corrupt("the keys of page %d are out of order", order.Uint64(b))
		}
		keys[i], ids[i] = key, order.Uint64(b[at+8:])
	}
	if within.from != nil && bytes.Compare(keys[0], within.from) < 0 || within.to != nil && bytes.Compare(keys[count-1], within.to) >= 0 {
		return corrupt("the keys of page %d are out of order", order.Uint64(b))
	}
	for i, id := range ids {
		// A search takes the first child for all below it, but the engine dies of a
		// first key that is too large, with the file open.
		child := span{keys[i], within.to}
		if i+1 < count {
			child.to = keys[i+1]
		}
		if err := c.tree(id, child, depth+1, visit); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) leaf(b []byte, within span, visit visitor) error {
	id, count := order.Uint64(b), int(order.Uint16(b[10:]))
	if order.Uint16(b[8:]) != leafPage || pageHead+count*elementSize > len(b) {
		return corrupt("page %d is damaged", id)
	}
	var last []byte
	for i := range count {
		at := pageHead + i*elementSize
		flags, pos := order.Uint32(b[at:]), at+int(order.Uint32(b[at+4:]))
		keySize, valueSize := int(order.Uint32(b[at+8:])), int(order.Uint32(b[at+12:]))
		key, err := cut(b, pos, keySize)
		if err != nil {
			return err
		}
		value, err := cut(b, pos+keySize, valueSize)
		if err != nil {
			return err
		}
		if i > 0 && bytes.Compare(last, key) >= 0 ||
			within.from != nil && bytes.Compare(key, within.from) < 0 || within.to != nil && bytes.Compare(key, within.to) >= 0 {
			return corrupt("the keys of page %d are out of order", id)
		}
		last = key
		if flags&^bucketLeaf != 0 {
			return corrupt("page %d holds something unknown", id)
		}
		if err := visit(key, value, flags == bucketLeaf); err != nil {
			return err
		}
	}
	return nil
}

// cut returns size bytes of a page, if it has them.
func cut(b []byte, pos, size int) ([]byte, error) {
	if pos < pageHead || size < 0 || pos > len(b) || size > len(b)-pos {
		return nil, corrupt("page %d points outside itself", order.Uint64(b))
	}
	return b[pos : pos+size : pos+size], nil
}

// bucket walks a bucket: on pages of its own, or within the value if it is
// small.
func (c *checker) bucket(value []byte, visit visitor) error {
	if len(value) < bucketHead {
		return corrupt("a bucket is cut short")
	}
	if root := order.Uint64(value); root != 0 {
		return c.tree(root, span{}, 0, visit)
	}
	if len(value) < bucketHead+pageHead {
		return corrupt("a bucket is cut short")
	}
	return c.leaf(value[bucketHead:], span{}, visit)
}

// topBucket checks one of the buckets that a store has.
func (c *checker) topBucket(name, value []byte, isBucket bool) error {
	for _, want := range topBuckets {
		if isBucket && bytes.Equal(name, want) {
			c.found++
			return c.bucket(value, func(key, value []byte, isBucket bool) error {
				return c.content(want, key, value, isBucket)
			})
		}
	}
	return corrupt("this is no store of Sidecall: it has %q", name)
}

// content checks one key of a bucket.
func (c *checker) content(bucket, key, value []byte, isBucket bool) error {
	if isBucket != (bytes.Equal(bucket, outputsBucket) || bytes.Equal(bucket, conversationsBucket)) {
		return corrupt("a value in %s is damaged", bucket)
	}
	switch string(bucket) {
	case string(expiryBucket), string(outputExpiryBucket), string(sheetExpiryBucket), string(conversationExpiryBucket):
		key = value
	}
	c.add(string(bucket), key)
	switch string(bucket) {
	case string(metaBucket), string(resultsBucket):
		_, err := verified(key, value)
		return err
	case string(recordsBucket):
		return c.record(key, value)
	case string(sheetsBucket):
		_, _, err := decodeSheet(key, value)
		return err
	case string(outputsBucket), string(conversationsBucket):
		return c.document(bucket, key, value)
	}
	return nil
}

// What records say of other buckets.
const (
	referred = "results of records"
	claimed  = "claimed records"
)

func (c *checker) record(key, value []byte) error {
	e, err := decodeEntry(key, value)
	if err != nil {
		return err
	}
	if e.Mark {
		c.add(referred, key)
	}
	if e.State == dedupe.Claimed {
		c.add(claimed, key)
	}
	return c.index.add(e.key, e.id)
}

// totals compares what belongs together.
func (c *checker) totals() error {
	if c.found != len(topBuckets) || c.sets[string(metaBucket)].count != 3 {
		return corrupt("this is no store of Sidecall, or parts of it are missing")
	}
	for _, pair := range [...][2]string{
		{string(recordsBucket), string(expiryBucket)},
		{string(resultsBucket), referred},
		{string(claimsBucket), claimed},
		{string(outputsBucket), string(outputExpiryBucket)},
		{string(sheetsBucket), string(sheetExpiryBucket)},
		{string(conversationsBucket), string(conversationExpiryBucket)},
	} {
		if a, b := c.sets[pair[0]], c.sets[pair[1]]; a != b {
			return corrupt("of %s it holds %d, and of %s %d others", pair[0], a.count, pair[1], b.count)
		}
	}
	return nil
}
