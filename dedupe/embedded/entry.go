package embedded

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
)

// entry is a record as the file has it: what the state machine knows, and what
// only the store does.
type entry struct {
	dedupe.Record
	// id is its place in the file, given out in the order of first claims; 0
	// when it is not there. A forgotten record still has its place until it is
	// swept.
	id        uint64
	key       []byte // encoded
	expires   time.Time
	retention time.Duration
	hasResult bool // it has one in the results bucket, under the same id
}

// The layout of an entry, in big-endian: a fixed head, then key, owner and tool,
// each with its length in two bytes. A CRC-32C ends it, see sealed.
const (
	entryVersion = 1
	headSize     = 4 + 4 + 8*6 + 32
	crcSize      = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encodeEntry(e entry) []byte {
	b := make([]byte, 0, headSize+6+len(e.key)+len(e.Owner)+len(e.Tool)+crcSize)
	b = append(b, entryVersion, byte(e.State), byte(e.Effect), asByte(e.hasResult))
	b = binary.BigEndian.AppendUint32(b, uint32(e.Attempts))
	for _, n := range [...]int64{
		e.Epoch, millis(e.StartedAt), millis(e.FinishedAt), millis(e.LeaseUntil),
		millis(e.expires), e.retention.Milliseconds(),
	} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = append(b, e.Fingerprint[:]...)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(e.key))), e.key...)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(e.Owner))), e.Owner...)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(e.Tool))), e.Tool...)
	return binary.BigEndian.AppendUint32(b, checksum(bigEndian(e.id), b))
}

func decodeEntry(place, b []byte) (entry, error) {
	body, err := verified(place, b)
	if err != nil {
		return entry{}, fmt.Errorf("%w: the record of a call", err)
	}
	if len(place) != 8 || len(body) < headSize || body[0] != entryVersion {
		return entry{}, fmt.Errorf("%w: a record of an unknown layout", dedupe.ErrCorrupt)
	}
	var n [6]int64
	for i := range n {
		n[i] = int64(binary.BigEndian.Uint64(body[8+8*i:]))
	}
	e := entry{
		Record: dedupe.Record{
			State:       dedupe.State(body[1]),
			Effect:      tool.Effect(body[2]),
			Attempts:    int(binary.BigEndian.Uint32(body[4:])),
			Epoch:       n[0],
			StartedAt:   instant(n[1]),
			FinishedAt:  instant(n[2]),
			LeaseUntil:  instant(n[3]),
			Fingerprint: [32]byte(body[headSize-32:]),
		},
		id:        binary.BigEndian.Uint64(place),
		expires:   instant(n[4]),
		retention: time.Duration(n[5]) * time.Millisecond,
		hasResult: body[3] == 1,
	}
	var texts [3][]byte
	rest := body[headSize:]
	for i := range texts {
		if len(rest) < 2 || len(rest) < 2+int(binary.BigEndian.Uint16(rest)) {
			return entry{}, fmt.Errorf("%w: a record is cut short", dedupe.ErrCorrupt)
		}
		size := 2 + int(binary.BigEndian.Uint16(rest))
		texts[i], rest = rest[2:size], rest[size:]
	}
	e.key, e.Owner, e.Tool = bytes.Clone(texts[0]), string(texts[1]), string(texts[2])
	return e, nil
}

func asByte(set bool) byte {
	if set {
		return 1
	}
	return 0
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
