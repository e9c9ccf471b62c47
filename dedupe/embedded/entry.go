package embedded

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// entry is a record as the file has it: what every store keeps of one, and what
// only this one does. Its mark says that it has a result in the results bucket,
// under the same id.
type entry struct {
	dedupe.Stored
	// id is its place in the file, given out in the order of first claims; 0
	// when it is not there. A forgotten record still has its place until it is
	// swept.
	id      uint64
	key     []byte // encoded
	expires time.Time
}

// An entry is a record in the layout of package dedupe, then when it expires and
// its key, up to the end. A CRC-32C ends it, see sealed.
const crcSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encodeEntry(e entry) []byte {
	b := make([]byte, 0, entryBytes(e.key)+len(e.Owner)+len(e.Tool)+crcSize)
	b = e.AppendTo(b)
	b = append(append(b, bigEndian(uint64(dedupe.Millis(e.expires)))...), e.key...)
	return binary.BigEndian.AppendUint32(b, checksum(bigEndian(e.id), b))
}

// entryBytes is roughly how long the entry of a key is.
func entryBytes(key []byte) int { return dedupe.StoredBytes + 8 + len(key) }

func decodeEntry(place, b []byte) (entry, error) {
	body, err := verified(place, b)
	if err != nil {
		return entry{}, fmt.Errorf("%w: the record of a call", err)
	}
	if len(place) != 8 {
		return entry{}, fmt.Errorf("%w: a record at a place of %d bytes", dedupe.ErrCorrupt, len(place))
	}
	stored, rest, err := dedupe.DecodeStored(body)
	if err != nil {
		return entry{}, err
	}
	if len(rest) < 8 {
		return entry{}, fmt.Errorf("%w: a record is cut short", dedupe.ErrCorrupt)
	}
	expires := dedupe.Instant(int64(binary.BigEndian.Uint64(rest)))
	return entry{Stored: stored, id: binary.BigEndian.Uint64(place), key: bytes.Clone(rest[8:]), expires: expires}, nil
}

// sealed appends to a value the checksum that verified checks. The key is in
// it, so that a value cannot pass for another's.
func sealed(key, value []byte) []byte {
	b := append(make([]byte, 0, len(value)+crcSize), value...)
	return binary.BigEndian.AppendUint32(b, checksum(key, value))
}

// verified returns what sealed was given. The result shares memory with b.
func verified(key, b []byte) ([]byte, error) {
	if len(b) < crcSize {
		return nil, fmt.Errorf("%w: a value is cut short", dedupe.ErrCorrupt)
	}
	value := b[:len(b)-crcSize]
	if binary.BigEndian.Uint32(b[len(value):]) != checksum(key, value) {
		return nil, fmt.Errorf("%w: a value fails its checksum", dedupe.ErrCorrupt)
	}
	return value, nil
}

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, key), castagnoli, value)
}

// encodeKey encodes the components so that no two keys are alike and the keys
// of a conversation are neighbours: 00 becomes 00 FF, and 00 01 ends each.
func encodeKey(k dedupe.Key) []byte {
	b := make([]byte, 0, len(k.Tenant)+len(k.Conversation)+len(k.Turn)+len(k.ID)+8)
	return appendComponents(b, k.Tenant, k.Conversation, k.Turn, k.ID)
}

func appendComponents(b []byte, components ...string) []byte {
	for _, c := range components {
		for i := range len(c) {
			if b = append(b, c[i]); c[i] == 0 {
				b = append(b, 0xFF)
			}
		}
		b = append(b, 0, 1)
	}
	return b
}

func bigEndian(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
