package dedupe

import (
	"crypto/sha1" //nolint:gosec // a checksum, and the only hash that a script in Redis has
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A sealed record is one in its layout, and then the length of its result (4), the
// CRC-32C of that (4), the seal (4) and the result, up to the end.
//
// The seal is the beginning of the SHA-1 of all that stands before it, with 0 for
// the mark: that is set alone, and decides nothing. What decides (state, epoch, owner,
// lease) is thus checked wherever it is read, in a script too; the result, which
// may be long, only where it is told.
const (
	sealBytes = 3 * 4
	// MarkAt is where the mark of a record stands.
	MarkAt = 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ResultSum is the checksum of a result as it stands in a sealed record.
func ResultSum(result []byte) uint32 { return crc32.Checksum(result, castagnoli) }

// AppendSealed appends the record in its layout, sealed and with its result. What
// it appends, DecodeSealed reads, provided that Verify finds nothing wrong.
func (s *Stored) AppendSealed(b []byte) []byte {
	from := len(b)
	b = s.AppendTo(b)
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.Result)))
	b = binary.BigEndian.AppendUint32(b, ResultSum(s.Result))
	b = binary.BigEndian.AppendUint32(b, seal(b[from:]))
	return append(b, s.Result...)
}

// DecodeSealed reads a record with its result, which shares memory with b. The error
// wraps ErrLayout or ErrCorrupt.
func DecodeSealed(b []byte) (s Stored, err error) {
	s, result, err := DecodeStored(b)
	if err == nil {
		result, err = unseal(b, result)
	}
	if err != nil {
		return Stored{}, err
	}
	if len(result) > 0 {
		s.Result = result
	}
	return s, nil
}

// unseal checks a record of which rest is what stands after its layout, and
// returns its result.
func unseal(b, rest []byte) (result []byte, err error) {
	if len(rest) < sealBytes {
		return nil, fmt.Errorf("%w: the seal of a record is cut short", ErrCorrupt)
	}
	body, result := b[:len(b)-len(rest)+2*4], rest[sealBytes:]
	switch {
	case binary.BigEndian.Uint32(rest[2*4:]) != seal(body):
		return nil, fmt.Errorf("%w: a record fails its checksum", ErrCorrupt)
	case uint64(binary.BigEndian.Uint32(rest)) != uint64(len(result)):
		return nil, fmt.Errorf("%w: a record with a result of %d bytes, of which there are %d", ErrCorrupt, binary.BigEndian.Uint32(rest), len(result))
	case binary.BigEndian.Uint32(rest[4:]) != ResultSum(result):
		return nil, fmt.Errorf("%w: the result of a record fails its checksum", ErrCorrupt)
	}
	return result, nil
}

// seal is the checksum of what stands before it in a record.
func seal(body []byte) uint32 {
	h := sha1.New()                 //nolint:gosec // as above
	_, _ = h.Write(body[:MarkAt])   // a hash never fails
	_, _ = h.Write([]byte{0})       // as above
	_, _ = h.Write(body[MarkAt+1:]) // as above
	return binary.BigEndian.Uint32(h.Sum(nil))
}
