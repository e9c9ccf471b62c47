package conversation

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A stored message is the CRC-32C of its place (8 bytes, big-endian) and of the rest
// (4), the name of its append (16), the length of its turn id (2), that, and the JSON up
// to the end.
const messageFixed = 4 + len(Name{}) + 2

func (m Message) encode(at int64) []byte {
	b := make([]byte, 4, messageFixed+len(m.Turn)+len(m.JSON))
	b = append(b, m.Append[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(m.Turn)))
	b = append(append(b, m.Turn...), m.JSON...)
	binary.BigEndian.PutUint32(b, sumAt(at, b[4:]))
	return b
}

func decodeMessage(at int64, b []byte) (Message, error) {
	if len(b) < messageFixed {
		return Message{}, fmt.Errorf("%w: message %d is cut short", ErrCorrupt, at)
	}
	if binary.BigEndian.Uint32(b) != sumAt(at, b[4:]) {
		return Message{}, fmt.Errorf("%w: message %d fails its checksum", ErrCorrupt, at)
	}
	turn, rest := int(binary.BigEndian.Uint16(b[messageFixed-2:])), b[messageFixed:]
	if turn > len(rest) {
		return Message{}, fmt.Errorf("%w: message %d is cut short", ErrCorrupt, at)
	}
	return Message{Turn: string(rest[:turn]), JSON: string(rest[turn:]), Append: Name(b[4:])}, nil
}

func sumAt(at int64, b []byte) uint32 {
	place := binary.BigEndian.AppendUint64(nil, uint64(at))
	return crc32.Update(crc32.Checksum(place, castagnoli), castagnoli, b)
}

// A stored head is the CRC-32C of its JSON (4), and that.
func (h *Head) encode() ([]byte, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, crc32.Checksum(text, castagnoli)), text...), nil
}

// maxListed bounds what a listing has of a head, in bytes.
const maxListed = 1 << 10

// Brief is a head as a listing has it: without the open calls, which may be many, but for
// their number. What is damaged stays damaged, and is as short.
func Brief(head []byte) []byte {
	if len(head) <= maxListed {
		return head
	}
	h, err := decodeHead(head)
	if err != nil {
		return slices.Clone(head[:maxListed])
	}
	h.Open, h.Left = nil, len(h.Open)
	short, err := h.encode()
	if err != nil {
		return slices.Clone(head[:maxListed])
	}
	return short
}

func decodeHead(b []byte) (Head, error) {
	if len(b) < 4 || binary.BigEndian.Uint32(b) != crc32.Checksum(b[4:], castagnoli) {
		return Head{}, fmt.Errorf("%w: its head fails its checksum", ErrCorrupt)
	}
	var h Head
	if err := json.Unmarshal(b[4:], &h); err != nil {
		return Head{}, fmt.Errorf("%w: its head: %w", ErrCorrupt, err)
	}
	return h, nil
}
