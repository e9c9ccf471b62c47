package journal

import (
	"bytes"
	"cmp"
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
	if err := late.Settlement.Validate(); err != nil {
		return nil, err
	}
	b := bytes.NewBufferString(magic + string(rune(version)) + "crc.")
	if err := gob.NewEncoder(b).Encode(late); err != nil {
		return nil, err
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
	if err == nil && late.Settlement.Claim == nil {
		err = errors.New("it has no claim")
	}
	if err = cmp.Or(err, late.Settlement.Validate()); err != nil {
		return dedupe.Late{}, fmt.Errorf("%w: %v", dedupe.ErrCorrupt, err) //nolint:errorlint // it was no request that was invalid
	}
	return late, nil
}
