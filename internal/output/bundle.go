package output

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"strings"
)

// bundleMark begins what is kept of a result that has more than a text. No text
// begins so: the first byte is no UTF-8.
var bundleMark = []byte("\xffparts1\n")

// partOverhead is what a part of a bundle takes beside its data, in bytes, at
// most.
const partOverhead = 4*maxName + 64

// structuredPart is the name of a structured result that did not fit.
const structuredPart = "structured"

// blockPart is the name of the data of a block that did not fit; blocks count
// from 0, and parts from 1.
func blockPart(index int) string { return strconv.Itoa(index + 1) }

// PartRef is the handle of a part of what is kept under ref.
func PartRef(ref, part string) string {
	if ref == "" || part == "" {
		return ref
	}
	return ref + "." + part
}

// SplitRef takes a handle apart: under which a thing is kept, and which part of it
// is meant; empty for its text.
func SplitRef(handle string) (ref, part string) {
	ref, part, _ = strings.Cut(handle, ".")
	return ref, part
}

// Kept is what a handle stands for.
type Kept struct {
	// MediaType of what is no text; empty for a text.
	MediaType string
	Data      []byte
	// Complete: it is all that the tool returned.
	Complete bool
}

// piece is a part of a bundle, as its index has it.
type piece struct {
	Name      string `json:"name,omitempty"` // empty for the text
	MediaType string `json:"type,omitempty"`
	Size      int    `json:"size"`

	data []byte
}

// bundle puts parts into one output.
func bundle(parts []piece) []byte {
	size := 0
	for i := range parts {
		parts[i].Size = len(parts[i].data)
		size += parts[i].Size + partOverhead
	}
	index, _ := json.Marshal(parts) // strings and numbers alone cannot fail
	b := make([]byte, 0, size+len(bundleMark)+binary.MaxVarintLen64)
	b = append(b, bundleMark...)
	b = binary.AppendUvarint(b, uint64(len(index)))
	b = append(b, index...)
	for _, p := range parts {
		b = append(b, p.data...)
	}
	return b
}

// Open returns a part of what Shape kept; false when there is none of that name.
func Open(kept []byte, complete bool, name string) (Kept, bool) {
	rest, bundled := bytes.CutPrefix(kept, bundleMark)
	if !bundled {
		return Kept{Data: kept, Complete: complete}, name == ""
	}
	length, n := binary.Uvarint(rest)
	if n <= 0 || length > uint64(len(rest)-n) {
		return Kept{}, false
	}
	var parts []piece
	if json.Unmarshal(rest[n:n+int(length)], &parts) != nil {
		return Kept{}, false
	}
	rest = rest[n+int(length):]
	for _, p := range parts {
		if p.Size < 0 || p.Size > len(rest) {
			return Kept{}, false
		}
		if p.Name == name {
			// Only a text is ever kept in part.
			return Kept{MediaType: p.MediaType, Data: rest[:p.Size], Complete: complete || name != ""}, true
		}
		rest = rest[p.Size:]
	}
	return Kept{}, false
}
