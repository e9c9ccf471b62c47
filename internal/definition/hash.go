package definition

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/internal/tool"
)

// Pin is what is remembered of a definition.
type Pin struct {
	// Hash is of the whole, "sha256:" and hex.
	Hash string
	// Parts are the beginnings of the hashes of its parts, in their order, to say
	// which of them has changed. Empty when nobody knows.
	Parts []string
}

// parts are the parts of a definition, by the names that operators read.
var parts = [...]string{"description", "input_schema", "output_schema", "annotations"}

// partDigits is how many hex digits are kept of the hash of a part.
const partDigits = 8

// Of returns the pin of a definition as the backend sent it, before anything was
// cleaned or cut: no version of the sidecar that cleans otherwise changes it. The
// order of keys and white space in JSON do not count.
func Of(d *tool.Discovered) Pin {
	annotations, _ := json.Marshal(d.Annotations) // strings cannot fail; keys are sorted
	texts := [len(parts)][]byte{[]byte(d.Description), sorted(d.InputSchema), sorted(d.OutputSchema), annotations}
	whole := sha256.New()
	pin := Pin{Parts: make([]string, len(parts))}
	for i, text := range texts {
		sum := sha256.Sum256(text)
		whole.Write(sum[:])
		pin.Parts[i] = hex.EncodeToString(sum[:])[:partDigits]
	}
	sum := sha256.Sum256([]byte(d.Name))
	whole.Write(sum[:])
	pin.Hash = "sha256:" + hex.EncodeToString(whole.Sum(nil))
	return pin
}

// Changed names the parts that differ.
func (p Pin) Changed(since Pin) string {
	var changed []string
	for i, name := range parts {
		if len(p.Parts) == len(parts) && len(since.Parts) == len(parts) && p.Parts[i] != since.Parts[i] {
			changed = append(changed, name)
		}
	}
	if len(changed) == 0 {
		return "definition"
	}
	return strings.Join(changed, ", ")
}

// sorted is JSON with its keys in order and without white space, numbers as they
// were written; what is no JSON as it is.
func sorted(text []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return slices.Clone(text)
	}
	out, err := json.Marshal(value)
	if err != nil {
		return slices.Clone(text)
	}
	return out
}
