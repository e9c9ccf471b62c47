package output

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/tool"
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
	var text []byte
	return rewritten(b, func(dst, value []byte) []byte {
		if value[0] == '"' {
			text, _ = jsontext.AppendUnquote(text[:0], value)
			if without := in.Secrets.Bytes(text); !bytes.Equal(without, text) {
				return tool.AppendQuoted(dst, without)
			}
		} else if without := in.Secrets.Bytes(value); !bytes.Equal(without, value) {
			return tool.AppendQuoted(dst, tool.ReceivedRedacted)
		}
		return append(dst, value...)
	})
}
