package embedded

import (
	"encoding/binary"
	"slices"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/tool"
)

// keyOf encodes the parts of a key so that no two lists of as many are alike: each but the last
// has its length in 2 bytes before it. So those that differ in the last are in its order.
func keyOf(parts ...string) (b []byte) {
	last := len(parts) - 1
	for _, part := range parts[:last] {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(part))), part...)
	}
	return append(b, parts[last]...)
}

func encodeKey(k tool.CallID) []byte { return keyOf(k.Tenant, k.Conversation, k.Turn, k.ID) }

// decodeKey reads what encodeKey has written.
func decodeKey(b []byte) (k tool.CallID) {
	for _, part := range [...]*string{&k.Tenant, &k.Conversation, &k.Turn} {
		end := 2 + int(binary.BigEndian.Uint16(b))
		*part, b = string(b[2:end]), b[end:]
	}
	k.ID = string(b)
	return k
}

func sheetKey(name dedupe.Sheet) []byte {
	return keyOf(name.Tenant, name.Conversation, name.Name)
}

func outputKey(tenant, ref string) []byte { return keyOf(tenant, ref) }

// conversationKey is the key of a conversation's head.
func conversationKey(k conversation.Key) []byte { return keyOf(k.Tenant, k.ID) }

// messageKey is the key of a message of a conversation.
func messageKey(name []byte, number int) []byte {
	return slices.Concat(name, bigEndian(number))
}

func decodeMessageKey(b []byte) (name []byte, number int) {
	at := len(b) - 4
	return b[:at], int(binary.BigEndian.Uint32(b[at:]))
}
