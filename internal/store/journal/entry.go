package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/sidecall/sidecall/dedupe"
)

// An entry is a head and then a dedupe.Late in encoding/gob:
//
//	magic[7] version[1] crc[4]   CRC-32C of the version and of what follows the head
//
// Another version has the same head.
const (
	magic    = "SCENTRY"
	version  = 1
	headSize = len(magic) + 1 + crc32.Size
)

var errLater = errors.New("another version of Sidecall has written it")

func checksum(data []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(data[len(magic):len(magic)+1], table), table, data[headSize:])
}

func encode(late dedupe.Late) ([]byte, error) {
	if err := validate(&late); err != nil {
		return nil, err
	}
	b := bytes.NewBufferString(magic + string(rune(version)) + "crc.")
	if err := gob.NewEncoder(b).Encode(late); err != nil {
		return nil, fmt.Errorf("%w: %w", dedupe.ErrInvalid, err)
	}
	data := b.Bytes()
	binary.LittleEndian.PutUint32(data[len(magic)+1:], checksum(data))
	return data, nil
}

// decode is the inverse of encode. The error wraps dedupe.ErrCorrupt or errLater.
func decode(data []byte) (late dedupe.Late, err error) {
	switch {
	case len(data) < headSize || string(data[:len(magic)]) != magic:
		return late, fmt.Errorf("%w: it does not begin as an entry does", dedupe.ErrCorrupt)
	case binary.LittleEndian.Uint32(data[len(magic)+1:]) != checksum(data):
		return late, fmt.Errorf("%w: its checksum is wrong", dedupe.ErrCorrupt)
	case data[len(magic)] != version:
		return late, fmt.Errorf("%w: version %d, and only %d is known", errLater, data[len(magic)], version)
	}
	err = gob.NewDecoder(bytes.NewReader(data[headSize:])).Decode(&late)
	if err == nil {
		err = validate(&late)
	}
	if err != nil {
		return dedupe.Late{}, fmt.Errorf("%w: %v", dedupe.ErrCorrupt, err) //nolint:errorlint // it was no request that was invalid
	}
	return late, nil
}

// validate reports what no store would take.
func validate(late *dedupe.Late) error {
	s := &late.Settlement
	if s.Claim == nil || s.Resolves || s.Tokens != 0 || len(s.Appends) > 0 {
		return fmt.Errorf("%w: a journal keeps the settlements of claims, and nothing of the loop around a call", dedupe.ErrInvalid)
	}
	return s.Validate()
}
