package redisstore

import "github.com/sidecall/sidecall/dedupe"

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
// A part is written so that it never contains a slash or a brace; no two keys are alike.
func appendKey(b []byte, prefix, kind string, braced int, parts ...string) []byte {
	b = append(append(b, prefix...), kind...)
	for i, part := range parts {
		if i > 0 {
			b = append(b, '/')
		} else if braced > 0 {
			b = append(b, '{')
		}
		b = appendPart(b, part)
		if i+1 == braced {
			b = append(b, '}')
		}
	}
	return b
}

func appendRecordKey(b []byte, prefix string, k dedupe.Key) []byte {
	braced := 2
	if k.Conversation == "" {
		braced = 4
	}
	return appendKey(b, prefix, "", braced, k.Tenant, k.Conversation, k.Turn, k.ID)
}

// recordKey is the key of the record of a call.
func recordKey(prefix string, k dedupe.Key) string {
	var room [128]byte
	return string(appendRecordKey(room[:0], prefix, k))
}

// appendPart appends any bytes as letters, digits and -_.~:, and as %XX where it is
// something else.
func appendPart(b []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		if c := s[i]; plain[c] {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return b
}

var plain = func() (t [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~:") {
		t[c] = true
	}
	return t
}()
