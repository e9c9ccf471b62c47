package embedded

import (
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
	stored    bool // it is in the file, forgotten or not
	expires   time.Time
	retention time.Duration
	resultID  uint64 // of its result in the results bucket; 0 when it has none
}

// The layout of an entry, in big-endian: a fixed head, owner and tool each with
// its length in two bytes, and a CRC-32C of key and entry.
const (
	entryVersion = 1
	headSize     = 3 + 4 + 8*7 + 32
	crcSize      = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encodeEntry(key []byte, e entry) []byte {
	b := make([]byte, 0, headSize+4+len(e.Owner)+len(e.Tool)+crcSize)
	b = append(b, entryVersion, byte(e.State), byte(e.Effect))
	b = binary.BigEndian.AppendUint32(b, uint32(e.Attempts))
	for _, n := range [...]int64{
		e.Epoch, millis(e.StartedAt), millis(e.FinishedAt), millis(e.LeaseUntil),
		millis(e.expires), e.retention.Milliseconds(), int64(e.resultID),
	} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = append(b, e.Fingerprint[:]...)
	for _, s := range [...]string{e.Owner, e.Tool} {
		b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	return binary.BigEndian.AppendUint32(b, checksum(key, b))
}

func decodeEntry(key, b []byte) (entry, error) {
	body, err := verified(key, b)
	if err != nil {
		return entry{}, fmt.Errorf("%w: the record of a call fails its checksum", err)
	}
	if len(body) < headSize || body[0] != entryVersion {
		return entry{}, fmt.Errorf("%w: a record of an unknown layout", dedupe.ErrCorrupt)
	}
	var n [7]int64
	for i := range n {
		n[i] = int64(binary.BigEndian.Uint64(body[7+8*i:]))
	}
	e := entry{
		Record: dedupe.Record{
			State:       dedupe.State(body[1]),
			Effect:      tool.Effect(body[2]),
			Attempts:    int(binary.BigEndian.Uint32(body[3:])),
			Epoch:       n[0],
			StartedAt:   instant(n[1]),
			FinishedAt:  instant(n[2]),
			LeaseUntil:  instant(n[3]),
			Fingerprint: [32]byte(body[headSize-32:]),
		},
		stored:    true,
		expires:   instant(n[4]),
		retention: time.Duration(n[5]) * time.Millisecond,
		resultID:  uint64(n[6]),
	}
	rest := body[headSize:]
	for _, s := range [...]*string{&e.Owner, &e.Tool} {
		if len(rest) < 2 || len(rest) < 2+int(binary.BigEndian.Uint16(rest)) {
			return entry{}, fmt.Errorf("%w: a record is cut short", dedupe.ErrCorrupt)
		}
		size := 2 + int(binary.BigEndian.Uint16(rest))
		*s, rest = string(rest[2:size]), rest[size:]
	}
	return e, nil
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
