package output

import (
	"bytes"
	"strings"

	"github.com/sidecall/sidecall/tool"
)

// WithoutSecrets is a clean JSON text without secrets, which is JSON still.
func WithoutSecrets(clean []byte, secrets Secrets) []byte {
	return (&Input{Secrets: secrets}).jsonWithoutSecrets(clean)
}

// withoutSecrets is a clean text without secrets.
func (in *Input) withoutSecrets(text []byte) []byte {
	if in.Secrets == nil {
		return text
	}
	return in.Secrets.Bytes(text)
}

// jsonWithoutSecrets is a clean JSON text without secrets, which is JSON still. One
// pass finds out whether there are any, in whatever spelling; only then the
// strings are taken apart. A number that is one becomes a string.
func (in *Input) jsonWithoutSecrets(b []byte) []byte {
	if in.Secrets == nil {
		return b
	}
	if raw := in.Secrets.Bytes(b); len(raw) == len(b) && bytes.Equal(raw, b) {
		return b
	}
	out, text := make([]byte, 0, len(b)), []byte(nil)
	for i := 0; i < len(b); {
		end := tokenEnd(b, i)
		token := b[i:end]
		i = end
		if token[0] == '"' {
			text = appendUnquoted(text[:0], token[1:len(token)-1])
			if without := in.Secrets.Bytes(text); !bytes.Equal(without, text) {
				out = append(appendEscaped(append(out, '"'), without), '"')
				continue
			}
		} else if without := in.Secrets.Bytes(token); !bytes.Equal(without, token) {
			out = append(append(append(out, '"'), tool.ReceivedRedacted...), '"')
			continue
		}
		out = append(out, token...)
	}
	return out
}

// tokenEnd returns the index behind what begins at i of a JSON text: a string, a
// number or word, or one other character.
func tokenEnd(b []byte, i int) int {
	if b[i] == '"' {
		return skipString(b, i)
	}
	end := i
	for end < len(b) && strings.IndexByte("{}[],: \t\r\n\"", b[end]) < 0 {
		end++
	}
	return max(end, i+1)
}
