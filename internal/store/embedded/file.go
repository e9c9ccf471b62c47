package embedded

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// The file is two heads, of a page each, and segments after them. The segments carry one
// log, a stream of bytes that only grows at its end; a place in it is how many bytes were
// before it since the file was made. Each segment says which part of the log it carries. One
// whose part is behind the tail, before which nothing is live, is free for a later part.
//
// A commit writes what comes to the log, then the head that is not in force, and syncs once.
// A head says where the log begins, where it ended with the commit before, which is on the
// disk then, where it ends with its own, and the checksum of that. Up to the former everything
// has to be as it was written; a commit that is not whole did not come to its end, nobody was
// told of it, and the head before it is in force. When the disk has answered, the head is
// written once more and says that all of the log is there, before anybody is told.
// After a loss of power it may say so or not: it is never wrong.
const (
	// format names the layout of the file. Another layout gets another name.
	format      = "sidecall records 6"
	formatOfAny = "sidecall records "

	pageSize    = 4096
	segmentsAt  = 2 * pageSize
	segmentSize = 64 << 10
	segmentHead = 8 + 8 + 4 // number of the part, of the commit that began it, checksum
	partSize    = segmentSize - segmentHead

	formatBytes = 24
	headBytes   = formatBytes + 6*8 + 4
	// mostGrowth bounds the segments that the file grows by at a time.
	mostGrowth = 64
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is that of a value at a place, so that it cannot pass for one of another.
func checksum(at int64, value []byte) uint32 {
	sum := ^uint32(0)
	for shift := 56; shift >= 0; shift -= 8 { // as crc32.Checksum does, for which the place would be on the heap
		sum = castagnoli[byte(sum)^byte(at>>shift)] ^ sum>>8
	}
	return crc32.Update(^sum, castagnoli, value)
}

// head is what the file says first.
type head struct {
	commit int64 // how many there were
	clock  int64 // the store's time, in milliseconds
	// The log is from tail to end; up to durable it is on the disk.
	tail, durable, end int64
	sum                int64 // checksum of what is between them
}

// encode appends what stands in a slot. No other slot can be taken for it.
func (h *head) encode(b []byte, slot int) []byte {
	b = append(append(b, format...), make([]byte, formatBytes-len(format))...)
	for _, n := range [...]int64{h.commit, h.clock, h.tail, h.durable, h.end, h.sum} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return binary.BigEndian.AppendUint32(b, checksum(int64(slot), b))
}

func decodeHead(b []byte, slot int) (h head, err error) {
	body := b[:headBytes-4]
	if name := string(bytes.TrimRight(b[:formatBytes], "\x00")); name != format && strings.HasPrefix(name, formatOfAny) {
		return head{}, fmt.Errorf("its format is %q; this version of Sidecall reads %q: it was left untouched, run the version that wrote it", name, format)
	}
	if binary.BigEndian.Uint32(b[len(body):]) != checksum(int64(slot), body) {
		return head{}, corrupt("the head of the file is damaged, or it is not a store")
	}
	for i, n := range [...]*int64{&h.commit, &h.clock, &h.tail, &h.durable, &h.end, &h.sum} {
		*n = int64(binary.BigEndian.Uint64(body[formatBytes+8*i:]))
	}
	return h, nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", dedupe.ErrCorrupt, fmt.Sprintf(format, args...))
}

// file is the open file, locked.
type file struct {
	medium

	path  string
	most  int64  // segments
	bound string // what says so
	// largest is the size of the largest row that there was since Open, outputs apart.
	largest int64
	write   func(b []byte, at int64) (int, error)
	sync    func() error

	head           // in force
	slot     int   // where it stands
	segments int64 // that the file has
	parts    map[int64]int64
	free     []int64
	// heads are the heads as this process has left them.
	heads   [2][headBytes]byte
	scratch [headBytes]byte // of the committer
}

// untilFree does something with a file, and waits for a while for another process to let go of it.
func untilFree(wait time.Duration, do func() error) error {
	for until := time.Now().Add(wait); ; time.Sleep(min(wait, lockPause)) {
		if err := do(); !errors.Is(err, ErrInUse) || !time.Now().Before(until) {
			return err
		}
	}
}

const lockPause = 20 * time.Millisecond

// ErrInUse is why a store is not opened whose file another process has.
var ErrInUse = errors.New("another process is using it")

func newFile(path string, on medium, most int64, bound string) *file {
	return &file{medium: on, path: path, most: most, bound: bound, write: on.WriteAt, sync: on.Sync, parts: map[int64]int64{}}
}

// lock locks an open file, which has a name as long as nobody has removed or replaced it.
func lock(f *os.File, name string) (os.FileInfo, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, ErrInUse
	} else if err != nil {
		return nil, err
	}
	here, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if named, err := os.Stat(name); err != nil || !os.SameFile(here, named) {
		return nil, ErrInUse
	}
	return here, nil
}

func openFile(path string, bound int64) (*file, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file: set store.embedded.path to one, or to a name that is free")
	}
	opened, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if info, err = lock(opened, path); err != nil { // it may have grown before that
		return nil, errors.Join(err, opened.Close())
	}
	f := newFile(path, osFile{opened, info}, segmentsIn(bound), "store.embedded.max_bytes")
	f.segments = (info.Size() - segmentsAt) / segmentSize
	return f, nil
}

// readHeads reads the heads, and the segments as the newest has them. The other one is in
// force if the commit of the newest is not whole.
func (f *file) readHeads() (other head, err error) {
	var heads [2]head
	for i := range heads {
		if _, err := f.ReadAt(f.heads[i][:], int64(i)*pageSize); err != nil {
			return head{}, corrupt("the file is shorter than its heads")
		}
		if heads[i], err = decodeHead(f.heads[i][:], i); err != nil {
			return head{}, err
		}
	}
	if heads[1].commit > heads[0].commit {
		f.slot = 1
	}
	f.head, other = heads[f.slot], heads[1-f.slot]
	return other, f.readSegments()
}

// readSegments finds the segments of the log; the others are free. A part that was begun
// twice, because the first commit of it was not whole, is where it was begun last. The free
// ones are in order: should the next commit come to no end, and the one after it begin the
// same parts under the same number, then it begins each where the former did, or before that.
func (f *file) readSegments() error {
	clear(f.parts)
	f.free = nil
	begun := map[int64]int64{}
	for segment := range f.segments {
		part, commit, err := f.readSegment(segment)
		if err != nil {
			return err
		}
		if part >= f.tail/partSize && part*partSize < f.end && commit <= f.commit && commit > begun[part] {
			f.parts[part], begun[part] = segment, commit
		}
	}
	taken := slices.Sorted(maps.Values(f.parts))
	for segment := range f.segments {
		if _, found := slices.BinarySearch(taken, segment); !found {
			f.free = append(f.free, segment)
		}
	}
	return nil
}

// readSegment reads which part of the log a segment carries, -1 for none, and which commit
// has begun it.
func (f *file) readSegment(segment int64) (part, commit int64, err error) {
	var b [segmentHead]byte
	if _, err := f.ReadAt(b[:], segmentsAt+segment*segmentSize); err != nil {
		return 0, 0, err
	}
	if binary.BigEndian.Uint32(b[16:]) != checksum(segment, b[:16]) {
		return -1, 0, nil
	}
	return int64(binary.BigEndian.Uint64(b[:])), int64(binary.BigEndian.Uint64(b[8:])), nil
}

// offset is where a place of the log is in the file, and how much of its part comes from
// there on.
func (f *file) offset(at int64) (offset, rest int64, err error) {
	segment, ok := f.parts[at/partSize]
	if !ok {
		return 0, 0, corrupt("a part of the log is missing")
	}
	return segmentsAt + segment*segmentSize + segmentHead + at%partSize, partSize - at%partSize, nil
}

type logReader struct{ *file }

func (l logReader) ReadAt(b []byte, at int64) (read int, err error) {
	for read < len(b) {
		offset, rest, err := l.offset(at + int64(read))
		if err != nil {
			return read, err
		}
		n, err := l.file.ReadAt(b[read:min(int64(len(b)), int64(read)+rest)], offset)
		read += n
		if errors.Is(err, io.EOF) {
			return read, corrupt("the file is cut short")
		} else if err != nil {
			return read, err
		}
	}
	return read, nil
}

func (f *file) log(from, to int64) *io.SectionReader {
	return io.NewSectionReader(logReader{f}, from, to-from)
}

func (f *file) size() int64 { return segmentsAt + f.segments*segmentSize }

// partsOf is how many parts a log has that is so long.
func partsOf(n int64) int64 { return (n + partSize - 1) / partSize }

// reserve is how many segments are kept free, so that on a full disk what is live can be moved,
// and what is at work can be settled.
func (f *file) reserve() int64 { return min(max(f.segments/8, leastReserve), mostReserve) }

const leastReserve, mostReserve = 2, 16

// makeFree makes the file grow until so many segments are free beside the reserve. It reports
// why it cannot, if fewer than least would be left of that.
func (f *file) makeFree(need, least int64) error {
	var why error
	for want := need + max(least, f.reserve()+partsOf(f.largest)); int64(len(f.free)) < want && why == nil; {
		why = f.grow(max(want-int64(len(f.free)), min(f.segments/16, mostGrowth)))
	}
	if errors.Is(why, dedupe.ErrFull) && int64(len(f.free)) >= need+least {
		return nil
	}
	return why
}

// grow makes the file longer by some segments of zeros, so that a commit writes to what is
// there already; by fewer when the disk has room for those.
func (f *file) grow(by int64) error {
	if by = min(by, f.most-f.segments); by <= 0 {
		return fmt.Errorf("%w: %s may not grow beyond %d bytes (%s)", dedupe.ErrFull, f.path, segmentsAt+f.most*segmentSize, f.bound)
	}
	size := f.size()
	if err := f.inPlace(size); err != nil {
		return err // else it would be as long as it was, with a hole
	}
	n, err := f.put(make([]byte, by*segmentSize), size)
	if by = int64(n) / segmentSize; err != nil {
		cut := f.Truncate(size + by*segmentSize)
		if by == 0 || cut != nil || !errors.Is(err, dedupe.ErrFull) {
			return errors.Join(err, cut)
		}
	}
	if err := f.untouched(); err != nil {
		return err // it was cut meanwhile, and is as long as it was, with a hole
	}
	for range by {
		f.add()
	}
	return nil
}

func (f *file) add() {
	f.free = append(f.free, f.segments)
	f.segments++
}

// segmentsIn is how many segments a file of so many bytes has, which may be one at least; any
// number for 0.
func segmentsIn(bytes int64) int64 {
	if bytes <= 0 {
		return math.MaxInt32
	}
	return max(1, (bytes-segmentsAt)/segmentSize)
}

// put writes, and says so when the disk is full.
func (f *file) put(b []byte, at int64) (n int, err error) {
	n, err = f.write(b, at)
	for _, full := range [...]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) {
			return n, fmt.Errorf("%w: there is no room for %s: %w", dedupe.ErrFull, f.path, err)
		}
	}
	return n, err
}

// writeLog writes to the end of the log, which takes the first of the free segments. Nothing
// counts before its commit does.
func (f *file) writeLog(b []byte) error {
	first := partsOf(f.end)
	for at := f.end; len(b) > 0; {
		part, within := at/partSize, at%partSize
		n := min(partSize-within, int64(len(b)))
		piece, segment, offset := b[:n], f.parts[part], segmentHead+within
		if part >= first {
			segment, offset = f.free[part-first], 0
			head := binary.BigEndian.AppendUint64(make([]byte, 0, segmentHead+n), uint64(part))
			head = binary.BigEndian.AppendUint64(head, uint64(f.commit+1))
			piece = append(binary.BigEndian.AppendUint32(head, checksum(segment, head)), piece...)
		}
		if _, err := f.put(piece, segmentsAt+segment*segmentSize+offset); err != nil {
			return err
		}
		b, at = b[n:], at+n
	}
	return nil
}

// writeHead writes a head, which is in force then.
func (f *file) writeHead(slot int, next head) error {
	b := next.encode(f.scratch[:0], slot)
	if _, err := f.put(b, int64(slot)*pageSize); err != nil {
		return err
	}
	copy(f.heads[slot][:], b)
	f.head, f.slot = next, slot
	return nil
}

// confirm says that all of the log is on the disk, as it is. A file system that writes nothing
// in place may have no room to say so: then the next commit says it.
func (f *file) confirm() error {
	next := f.head
	next.durable, next.sum = next.end, int64(checksum(next.end, nil))
	if err := f.writeHead(f.slot, next); !errors.Is(err, dedupe.ErrFull) {
		return err
	}
	return nil
}

// follow takes over the segments that a commit has begun, and frees those that were of the
// log before it and are not any more.
func (f *file) follow(before head) {
	for part := partsOf(before.end); part < partsOf(f.end); part++ {
		f.parts[part], f.free = f.free[0], f.free[1:]
	}
	for part := before.tail / partSize; (part+1)*partSize <= f.tail; part++ {
		f.forget(f.parts[part])
		f.free = append(f.free, f.parts[part])
		delete(f.parts, part)
	}
}

// errOverwritten is why a file that is not as this process has left it is used no more.
var errOverwritten = errors.New("its file was cut short or overwritten by somebody else while it was in use")

// untouched reports why the heads of the file, and of the segment in which the log ends, are
// not what this process has left there.
func (f *file) untouched() error {
	for i := range f.heads {
		if _, err := f.ReadAt(f.scratch[:], int64(i)*pageSize); err != nil || f.scratch != f.heads[i] {
			return errOverwritten
		}
	}
	last := (f.end - 1) / partSize
	segment, there := f.parts[last]
	if !there { // the log is empty, and the next part is not begun
		return nil
	}
	if part, _, err := f.readSegment(segment); err != nil || part != last {
		return errOverwritten
	}
	return nil
}

// asLeft reports why the file is not as this process has left it.
func (f *file) asLeft() error { return cmp.Or(f.inPlace(f.size()), f.untouched()) }
