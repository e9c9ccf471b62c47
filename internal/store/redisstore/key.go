package redisstore

import (
	"net/url"

	"github.com/sidecall/sidecall/internal/tool"
)

// appendKey appends a key: the prefix, its kind, and its parts, of which the first few are
// in braces:
//
//	sidecall:{tenant/conversation}/turn/id        the record of a call
//	sidecall:{tenant//turn/id}                    of one without a conversation
//	sidecall:budget/{tenant/conversation}/prompt  a tally
//	sidecall:effect/{tenant/conversation}/hash    who holds an effect
//	sidecall:effect/{tenant}/hash                 who holds a whole tenant's
//	sidecall:log/{tenant/conversation}/name       a log
//	sidecall:conversation/{tenant/conversation}   the head of a conversation
//	sidecall:messages/{tenant/conversation}       the list of its messages
//	sidecall:output/tenant/ref                    a kept output
//	sidecall:instance/name                        the tenure of an instance
//
// What is in braces decides the slot in a Redis Cluster, so that all keys of a
// conversation share one. Calls without a conversation have nothing to share and are
// spread by their own id. The reader of an output knows no more than tenant and ref.
// A part is escaped, so that it never contains a slash or a brace; no two keys are alike.
func appendKey(b []byte, prefix, kind string, braced int, parts ...string) []byte {
	b = append(append(b, prefix...), kind...)
	for i, part := range parts {
		if i > 0 {
			b = append(b, '/')
		} else if braced > 0 {
			b = append(b, '{')
		}
		b = append(b, url.QueryEscape(part)...)
		if i+1 == braced {
			b = append(b, '}')
		}
	}
	return b
}

// braced is how many parts of the key of a record are in braces.
func braced(k tool.CallID) int {
	if k.Conversation == "" {
		return 4
	}
	return 2
}

// recordKey is the key of the record of a call.
func recordKey(prefix string, k tool.CallID) string {
	var room [128]byte
	return string(appendKey(room[:0], prefix, "", braced(k), k.Tenant, k.Conversation, k.Turn, k.ID))
}
