package journal

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// The file is a header and then frames, one per entry:
//
//	header  magic[8] id[8] crc[4]                 crc over magic and id
//	frame   id[8] length[4] bodyCRC[4] crc[4]     crc over the 16 bytes before it
//	        body[length]
//
// The checksums are CRC-32C, the numbers little-endian. The id is random and
// begins every frame: behind a damage the next frame is found by looking for it,
// and what a tool returned (which is in the bodies) cannot look like a frame,
// for it cannot know the id. A frame's head has a checksum of its own, so that
// a frame that was still being written when the power went (its head is whole,
// the file ends too early) is not mistaken for a damage, nor the other way
// round.
const (
	magic      = "SCJOURN1"
	idBytes    = 8
	headerSize = len(magic) + idBytes + 4
	headSize   = idBytes + 4 + 4 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// fileID is the random part of a file's header.
type fileID [idBytes]byte

func newID() (id fileID) {
	_, _ = rand.Read(id[:]) // it never fails
	return id
}

// header returns the first bytes of a file.
func header(id fileID) []byte {
	b := append([]byte(magic), id[:]...)
	return binary.LittleEndian.AppendUint32(b, checksum(b))
}

// parseHeader returns the id of a file; ok is false when the bytes are no
// header.
func parseHeader(b []byte) (id fileID, ok bool) {
	if len(b) != headerSize || !bytes.HasPrefix(b, []byte(magic)) {
		return id, false
	}
	sealed := b[:headerSize-4]
	copy(id[:], sealed[len(magic):])
	return id, binary.LittleEndian.Uint32(b[headerSize-4:]) == checksum(sealed)
}

// frame returns a body with its head before it.
func frame(id fileID, body []byte) []byte {
	b := make([]byte, 0, headSize+len(body))
	b = append(b, id[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	b = binary.LittleEndian.AppendUint32(b, checksum(body))
	b = binary.LittleEndian.AppendUint32(b, checksum(b))
	return append(b, body...)
}

// head is the parsed head of a frame.
type head struct {
	length int64
	crc    uint32
}

// parseHead returns the head of a frame of any file; ok is false when the bytes
// are none.
func parseHead(b []byte) (id fileID, h head, ok bool) {
	if len(b) != headSize || binary.LittleEndian.Uint32(b[16:]) != checksum(b[:16]) {
		return id, h, false
	}
	copy(id[:], b)
	return id, head{int64(binary.LittleEndian.Uint32(b[8:])), binary.LittleEndian.Uint32(b[12:])}, true
}

// readBody reads and checks the body of a frame.
func readBody(r io.ReaderAt, offset int64, h head) ([]byte, error) {
	body := make([]byte, h.length)
	if err := readFull(r, body, offset+int64(headSize)); err != nil {
		return nil, err
	}
	if checksum(body) != h.crc {
		return nil, errChecksum
	}
	return body, nil
}

var errChecksum = errors.New("the checksum of an entry does not match")

// readFull fills b from an offset.
func readFull(r io.ReaderAt, b []byte, offset int64) error {
	if n, err := r.ReadAt(b, offset); n < len(b) {
		return fmt.Errorf("read at %d: %w", offset, err)
	}
	return nil
}

// damage is a part of a file that cannot be read as what was written to it.
type damage struct {
	offset, length int64
	reason         string
}

// scan is what a file holds.
type scan struct {
	end     int64 // of the last frame that may be appended to
	torn    int64 // bytes after it: an append that did not come to its end
	damages []damage
}

// scanFrames calls keep for every intact frame, in order. A frame that keep
// refuses is a damage too. The error is one of reading.
//
// The length in the head of a damaged frame is not trusted, checksum or not:
// part of its body may be missing, and the next frame stand where it should be.
func scanFrames(r io.ReaderAt, size int64, id fileID, keep func(offset int64, body []byte) error) (scan, error) {
	s := scan{end: int64(headerSize)}
	for at := s.end; at < size; {
		h, state, err := headAt(r, size, id, at)
		if err != nil {
			return s, err
		}
		reason := "this is no entry"
		if state == wholeFrame {
			body, err := readBody(r, at, h)
			if err == nil {
				err = keep(at, body)
			}
			if err == nil {
				at += int64(headSize) + h.length
				s.end = at
				continue
			}
			reason = err.Error()
		}
		next, err := findFrame(r, size, id, at+1)
		if err != nil {
			return s, err
		}
		if state == tornFrame && next == size {
			s.torn = size - at
			return s, nil
		}
		s.damages = append(s.damages, damage{at, next - at, reason})
		at, s.end = next, next
	}
	return s, nil
}

// frameState says what stands at an offset.
type frameState uint8

const (
	noFrame    frameState = iota
	wholeFrame            // as far as its head tells
	tornFrame             // the file ends within it
)

func headAt(r io.ReaderAt, size int64, id fileID, at int64) (head, frameState, error) {
	b := make([]byte, min(int64(headSize), size-at))
	if err := readFull(r, b, at); err != nil {
		return head{}, noFrame, err
	}
	if len(b) < headSize {
		n := min(len(b), idBytes)
		if bytes.Equal(b[:n], id[:n]) {
			return head{}, tornFrame, nil
		}
		return head{}, noFrame, nil
	}
	found, h, ok := parseHead(b)
	switch {
	case !ok || found != id:
		return head{}, noFrame, nil
	case h.length > size-at-int64(headSize):
		return h, tornFrame, nil
	default:
		return h, wholeFrame, nil
	}
}

// searchBytes is how much of a file is searched at a time.
const searchBytes = 64 << 10

// findFrame returns the offset of the first frame from an offset on; size when
// there is none.
func findFrame(r io.ReaderAt, size int64, id fileID, from int64) (int64, error) {
	buf := make([]byte, searchBytes)
	for from < size {
		part := buf[:min(int64(len(buf)), size-from)]
		if err := readFull(r, part, from); err != nil {
			return 0, err
		}
		next := from + int64(len(part))
		for at := 0; ; at++ {
			hit := bytes.Index(part[at:], id[:])
			if hit < 0 {
				break
			}
			at += hit
			if _, state, err := headAt(r, size, id, from+int64(at)); err != nil || state != noFrame {
				return from + int64(at), err
			}
		}
		if next < size {
			next -= idBytes - 1 // an id across the border of two parts
		}
		from = next
	}
	return size, nil
}
