package dedupe

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A sealed record is one in its layout, and then the seal (4) and the result, up to the
// end.
//
// The seal is the CRC-32C of all else, with 0 for the mark: that is set alone, and decides
// nothing.
const (
	sealBytes = 4
	// MarkAt is where the mark of a record stands.
	MarkAt = 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendSealed appends the record in its layout, sealed and with its result. What
// it appends, DecodeSealed reads, provided that Verify finds nothing wrong.
func (s *Stored) AppendSealed(b []byte) []byte {
	from := len(b)
	b = s.AppendTo(b)
	b = binary.BigEndian.AppendUint32(b, seal(b[from:], s.Result))
	return append(b, s.Result...)
}

// SealedBytes is how long a record is that AppendSealed appends.
func (s *Stored) SealedBytes() int {
	n := StoredBytes + len(s.Owner) + len(s.Tool) + sealBytes + len(s.Result)
	for _, c := range s.Charges {
		n += 2 + len(c.Counter) + 8
	}
	return n
}

// DecodeSealed reads a record with its result, which shares memory with b. The error
// wraps ErrLayout or ErrCorrupt.
func DecodeSealed(b []byte) (s Stored, err error) {
	s, rest, err := DecodeStored(b)
	if err != nil {
		return Stored{}, err
	}
	if len(rest) < sealBytes {
		return Stored{}, fmt.Errorf("%w: the seal of a record is cut short", ErrCorrupt)
	}
	result := rest[sealBytes:]
	if binary.BigEndian.Uint32(rest) != seal(b[:len(b)-len(rest)], result) {
		return Stored{}, fmt.Errorf("%w: a record fails its checksum", ErrCorrupt)
	}
	if len(result) > 0 {
		s.Result = result
	}
	return s, nil
}

// seal is the checksum of a record in its layout and its result.
func seal(body, result []byte) uint32 {
	sum := crc32.Update(0, castagnoli, body[:MarkAt])
	sum = crc32.Update(sum, castagnoli, []byte{0})
	sum = crc32.Update(sum, castagnoli, body[MarkAt+1:])
	return crc32.Update(sum, castagnoli, result)
}
