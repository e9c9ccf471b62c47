package embedded

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/tool"
)

// appendComponents encodes components so that no two lists of them are alike: 00 becomes
// 00 FF, and 00 01 ends each.
func appendComponents(b []byte, components ...string) []byte {
	for _, c := range components {
		if strings.IndexByte(c, 0) < 0 {
			b = append(append(b, c...), 0, 1)
			continue
		}
		b = append(append(b, strings.ReplaceAll(c, "\x00", "\x00\xff")...), 0, 1)
	}
	return b
}

// component reads what appendComponents has written, one at a time.
func component(b []byte) (c string, rest []byte, ok bool) {
	end := bytes.Index(b, []byte{0, 1})
	if end < 0 {
		return "", nil, false
	}
	return string(bytes.ReplaceAll(b[:end], []byte{0, 0xFF}, []byte{0})), b[end+2:], true
}

func encodeKey(k tool.CallID) []byte {
	b := make([]byte, 0, len(k.Tenant)+len(k.Conversation)+len(k.Turn)+len(k.ID)+8)
	return appendComponents(b, k.Tenant, k.Conversation, k.Turn, k.ID)
}

// decodeKey reads what encodeKey has written.
func decodeKey(b []byte) (k tool.CallID, err error) {
	for _, c := range [...]*string{&k.Tenant, &k.Conversation, &k.Turn, &k.ID} {
		var ok bool
		if *c, b, ok = component(b); !ok {
			return tool.CallID{}, corrupt("the key of a record is cut short")
		}
	}
	if len(b) > 0 {
		return tool.CallID{}, corrupt("the key of a record has %d bytes too many", len(b))
	}
	return k, nil
}

func sheetKey(name dedupe.Sheet) []byte {
	return appendComponents(nil, name.Tenant, name.Conversation, name.Name)
}

func outputKey(tenant, ref string) []byte { return appendComponents(nil, tenant, ref) }

// conversationKey is the key of a conversation's head.
func conversationKey(k conversation.Key) []byte { return appendComponents(nil, k.Tenant, k.ID) }

// messageKey is the key of a message of a conversation.
func messageKey(name []byte, number int) []byte {
	return slices.Concat(name, bigEndian(number))
}

func decodeMessageKey(b []byte) (name []byte, number int, err error) {
	at := len(b) - 4
	if at < 0 {
		return nil, 0, corrupt("the key of a message is cut short")
	}
	return b[:at], int(binary.BigEndian.Uint32(b[at:])), nil
}
