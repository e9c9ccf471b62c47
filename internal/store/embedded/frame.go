package embedded

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/tool"
)

// The log is frames, one for each row as it was put: the length of what follows (4 bytes),
// a checksum of the frame's place and of what follows (4), then the kind of the row (1), when
// it expires (8, in milliseconds since 1970), the length of its key (2), its key, its value.
// What is in one whose checksum is right is what was written, and not looked at again.
// The last frame of a row counts. As the log only loses its oldest frames, none that was
// replaced comes back.
const (
	frameHead = 4 + 4
	bodyHead  = 1 + 8 + 2
	// frameBytes is how many bytes a frame has beside its key and its value.
	frameBytes = frameHead + bodyHead
	// mostFrame bounds a frame.
	mostFrame = dedupe.MaxOutputBytes + 1<<20
)

// The kinds of rows; values have those of package dedupe.
const (
	recordRow       = 'r'
	outputRow       = 'o'
	conversationRow = 'c' // the head of one
	messageRow      = 'm'
	indexRow        = 'i' // by which terms a call is found
)

// frame is one, as it was read.
type frame struct {
	place

	kind    byte
	expires int64
	key     []byte
	value   []byte
}

// appendFrame appends the frame of a row, which is at a place of the log.
func appendFrame(b []byte, at int64, kind byte, expires int64, key []byte, value ...[]byte) []byte {
	from := len(b)
	b = append(b, make([]byte, frameHead)...)
	b = binary.BigEndian.AppendUint64(append(b, kind), uint64(expires))
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(key))), key...)
	for _, part := range value {
		b = append(b, part...)
	}
	body := b[from+frameHead:]
	binary.BigEndian.PutUint32(b[from:], uint32(len(body)))
	binary.BigEndian.PutUint32(b[from+4:], checksum(at, body))
	return b
}

// parseFrame reads the frame that is at a place, which shares memory with b.
func parseFrame(at int64, b []byte) (frame, error) {
	body := b[frameHead:]
	if int(binary.BigEndian.Uint32(b)) != len(body) || len(body) < bodyHead || binary.BigEndian.Uint32(b[4:]) != checksum(at, body) {
		return frame{}, corrupt("what is at %d of the log is not what was written there", at)
	}
	f := frame{place: place{at, uint32(len(b))}, kind: body[0], expires: int64(binary.BigEndian.Uint64(body[1:]))}
	size := int(binary.BigEndian.Uint16(body[9:]))
	f.key, f.value = body[bodyHead:][:size], body[bodyHead+size:]
	return f, nil
}

func (f *file) readFrame(p place) (frame, error) {
	b := make([]byte, p.size)
	if _, err := (logReader{f}).ReadAt(b, p.at); err != nil {
		return frame{}, err
	}
	return parseFrame(p.at, b)
}

// checksum is that of the log from a place to its end.
func (f *file) checksum(from int64) (int64, error) {
	sum := crc32.New(castagnoli)
	_ = binary.Write(sum, binary.BigEndian, from) // a hash never fails
	_, err := io.Copy(sum, f.log(from, f.end))
	return int64(sum.Sum32()), err
}

// scan shows the frames of the log from one place to another, until show returns false. What
// a frame has is valid until the next one.
func (f *file) scan(at, to int64, show func(frame) (bool, error)) error {
	r := bufio.NewReaderSize(f.log(at, to), segmentSize)
	var b []byte
	for on := true; on && at < to; {
		first, err := r.Peek(frameHead)
		if err != nil {
			return fmt.Errorf("%w: %w", corrupt("the log ends too early"), err)
		}
		size := int64(binary.BigEndian.Uint32(first)) + frameHead
		if size > mostFrame || at+size > to {
			return corrupt("a frame of %d bytes at %d of the log", size, at)
		}
		b = slices.Grow(b[:0], int(size))[:size]
		if _, err := io.ReadFull(r, b); err != nil {
			return err
		}
		read, err := parseFrame(at, b)
		if err != nil {
			return err
		}
		at += size
		if on, err = show(read); err != nil {
			return err
		}
	}
	return nil
}

// place is where a frame is in the log, and how long.
type place struct {
	at   int64
	size uint32
}

// keyOf encodes the parts of a key so that no two lists of as many are alike: each but the last
// has its length in 2 bytes before it. So those that differ in the last are in its order.
func keyOf(parts ...string) (b []byte) {
	last := len(parts) - 1
	for _, part := range parts[:last] {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(part))), part...)
	}
	return append(b, parts[last]...)
}

func encodeKey(k tool.CallID) []byte { return keyOf(k.Tenant, k.Conversation, k.Turn, k.ID) }

func decodeKey(b []byte) (k tool.CallID) {
	for _, part := range [...]*string{&k.Tenant, &k.Conversation, &k.Turn} {
		end := 2 + int(binary.BigEndian.Uint16(b))
		*part, b = string(b[2:end]), b[end:]
	}
	k.ID = string(b)
	return k
}

func valueKey(name dedupe.ValueKey) []byte {
	return keyOf(name.Tenant, name.Conversation, name.Name)
}

func conversationKey(k conversation.Key) []byte { return keyOf(k.Tenant, k.ID) }

func messageKey(name []byte, number int) []byte {
	return slices.Concat(name, bigEndian(number))
}

func decodeMessageKey(b []byte) (name []byte, number int) {
	at := len(b) - 4
	return b[:at], int(binary.BigEndian.Uint32(b[at:]))
}

// bigEndian is a number before what it counts.
func bigEndian(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
